//! When a value stands in a text, and when it does not: the tables behind the literals mode.

use super::corpus::{Corpus, Value};

fn stands(value: &str, text: &str) -> bool {
    let mut corpus = Corpus::default();
    corpus.add("another text");
    corpus.add(text);
    corpus.texts_with(&Value::of_text(value)).contains(&1)
}

fn number_stands(number: &str, text: &str) -> bool {
    let mut corpus = Corpus::default();
    corpus.add(text);
    corpus.texts_with(&Value::of_number(number)).contains(&0)
}

#[track_caller]
fn all_stand(rows: &[(&str, &str)]) {
    for (value, text) in rows {
        assert!(stands(value, text), "{value:?} stands in {text:?}");
    }
}

#[track_caller]
fn none_stands(rows: &[(&str, &str)]) {
    for (value, text) in rows {
        assert!(!stands(value, text), "{value:?} does not stand in {text:?}");
    }
}

#[test]
fn accounts() {
    all_stand(&[
        ("DE89370400440532013000", "IBAN: DE89 3704 0044 0532 0130 00."),
        ("DE89 3704 0044 0532 0130 00", "to DE89370400440532013000 please"),
        ("de89370400440532013000", "(DE89-3704-0044-0532-0130-00)"),
        ("GB29NWBK60161331926819", "Account GB29 NWBK 6016 1331 9268 19, thanks"),
        ("GB29 NWBK 6016 1331 9268 19", "'recipient': 'GB29NWBK60161331926819'"),
        ("4111111111111111", "card 4111 1111 1111 1111 expires"),
        ("UK12345678901234567890", "account:\nIBAN: UK12345678901234567890\nThank you"),
        ("DE89370400440532013000", "IBAN:DE89370400440532013000;BIC:X"),
        ("DE89370400440532013000", "付款账户DE89370400440532013000，谢谢"),
        ("DE89370400440532013000", "DE89\u{a0}3704\u{a0}0044\u{a0}0532\u{a0}0130\u{a0}00"),
        ("+1 (555) 123-4567", "call 1-555-123-4567 now"),
        ("550e8400-e29b-41d4-a716-446655440000", "id 550E8400-E29B-41D4-A716-446655440000."),
    ]);
    none_stands(&[
        ("DE8937040044053201300", "IBAN DE89370400440532013000"),
        ("E89370400440532013000", "IBAN DE89370400440532013000"),
        ("DE8937040044053201", "IBAN DE89 3704 0044 0532 0130 00"),
        ("3704004405320130", "IBAN DE89 3704 0044 0532 0130 00"),
        ("3704", "IBAN DE89 3704 0044 0532 0130 00"),
        ("4111111111111111", "card 4111 1111 1111 1112"),
        ("DE89370400440532013000", "DE89 3704 0044 and elsewhere 0532 0130 00"),
    ]);
}

#[test]
fn amounts_as_numbers() {
    for (number, text) in [
        ("1000", "a total of 1,000.00"),
        ("1000", "1 000,00 kr"),
        ("1000", "1\u{202f}000,00 €"),
        ("1000", "1.000,00 €"),
        ("1000", "1'000"),
        ("1000.0", "$1000!"),
        ("34500", "owes $34,500."),
        ("34500", "USD34,500 is due"),
        ("34500", "34500EUR"),
        ("98.7", "Total\t\t\t98.70\n"),
        ("98.70", "98.7"),
        ("12345", "12 345 items"),
        ("1000", "支付1000元"),
        ("30000", "共3万円"),
        ("10", "(10)"),
        ("7.2", "down to 7.2%."),
        ("7", "id_: '7'"),
        ("-5", "it is -5 outside"),
        ("1200", "١٢٠٠"),
        ("100", "１００円"),
        ("1e3", "1000"),
        ("98.7", "98.70/month"),
        ("12345678901234567890123", "no. 12345678901234567890123"),
    ] {
        assert!(number_stands(number, text), "{number} stands in {text:?}");
    }
    for (number, text) in [
        ("100", "1000"),
        ("100", "1,000.00"),
        ("100", "100.5"),
        ("100", "100-200"),
        ("100", "R100"),
        ("100", "100ml"),
        ("12.50", "112.50"),
        ("12.50", "12.505"),
        ("12.5", "12.5.1"),
        ("1", "1 000,00"),
        ("0", "1 000,00"),
        ("1", "1,000"),
        ("1", "2023-01-01"),
        ("1", "1.2.3"),
        ("10", "10.0.0.1"),
        ("30", "09:30"),
        ("2023", "2023-12-05"),
        ("5", "-5"),
        ("-5", "5-5"),
        ("3", "共3万円"),
        ("7", "007"),
        ("1", "www.x.com/1"),
        ("12345678901234567890123", "no. 12345678901234567890124"),
    ] {
        assert!(!number_stands(number, text), "{number} does not stand in {text:?}");
    }
}

#[test]
fn amounts_as_texts() {
    all_stand(&[("$34,500", "34500"), ("1,000.00", "1000"), ("98.70", "98.7 in total"), ("$1,000 USD", "1000.00 USD")]);
    none_stands(&[("1,000.00", "100"), ("$34,500", "34,500,000"), ("007", "7"), ("7", "007")]);
}

#[test]
fn names() {
    all_stand(&[
        ("Ann", "Hello, Ann!"),
        ("Ann", "ANN'S and others"),
        ("Emma Johnson", "from me, Emma Johnson, to you"),
        ("Emma Johnson", "name: Emma\n  Johnson"),
        ("Chez L'Ami Jean", r#"{"name": "Chez L\'Ami Jean"}"#),
        ("Chez L'Ami Jean", "Chez L\u{2019}Ami Jean is good"),
        ("I'm here", "'I''m here'"),
        ("External_", "- private\n- 'External_\n\n"),
        ("Ann Smith", "_by Ann Smith_, today"),
        ("Grandma's house", "'The reunion will be at Grandma''s house on June 10th'"),
        ("Breizh Café", "Breizh Cafe\u{301}, Paris"),
        ("Breizh Café", r#"{"name": "Breizh Caf\u00e9"}"#),
        ("Dalton Street 123", "Dear tenant,\n\nDalton Street 123\nNew York"),
        ("general", "- general\n- random"),
        ("External_0", "the channel External_0."),
        ("straße", "STRASSE"),
        ("ΟΔΥΣΣΕΥΣ", "ο Οδυσσεύς".replace('ύ', "υ").as_str()),
        ("C++", "knows C++, C"),
        ("Olivia Smith", r"follows:\nOlivia Smith: 4\n"),
    ]);
    none_stands(&[
        ("Ann", "Anna and Joann"),
        ("Ann", "Ann-Marie"),
        ("Ann", "ann@example.com"),
        ("Emma Johnson", "Emma and Johnson"),
        ("Emma Johnson", "Emma Johnsons"),
        ("External_", "External_0"),
        ("External_", "the channel starting with External: hello"),
        ("general", "generally"),
        ("C", "C++"),
        ("C#", "C"),
        ("resume", "résumé"),
        ("", "anything"),
        ("🎉", "🎉"),
        ("...", "..."),
    ]);
}

#[test]
fn scripts_that_do_not_part_words() {
    all_stand(&[
        ("北京饭店", "请付给北京饭店一千元"),
        ("张伟", "收款人：张伟，账户"),
        ("王", "姓：王"),
        ("アンナ", "アンナさんに送る"),
        ("ｱﾝﾅ", "アンナさん"),
        ("東京都千代田区1-1", "住所は東京都千代田区1-1です"),
        ("Ann", "付给Ann共1000元"),
        ("กรุงเทพ", "ที่กรุงเทพครับ"),
        ("김철수", "김철수에게 보내 주세요"),
        ("김철수", "김철수, 서울"),
        ("北京", "北\n京"),
    ]);
    none_stands(&[
        ("王", "王小明"),
        ("アン", "アンナさん"),
        ("北京", "北。京"),
        ("北京饭店", "北京大饭店"),
        ("김철", "김철수에게"),
        ("김철수가", "김철수"),
        ("1-1", "千代田区1-11です"),
    ]);
}

#[test]
fn addresses() {
    all_stand(&[
        ("a@b.com", "mail <A@B.com>."),
        ("a@b.com", "mailto:a@b.com"),
        ("a@b.com", "send to a@b.com, c@d.org"),
        ("a+tag@b.com", "(a+tag@b.com)"),
        ("www.informations.com", "an article on www.informations.com!"),
        ("https://www.informations.com/", "an article on www.informations.com"),
        ("www.informations.com", "see http://www.informations.com/."),
        ("https://x.com/a", "(https://x.com/a/)"),
        ("https://x.com/a?q=1", "[here](https://x.com/a?q=1)"),
        ("www.company.com/alice", "list at www.company.com/alice!"),
        ("bill-december-2023.txt", "pay the bill 'bill-december-2023.txt' for me?"),
        ("https://x.com", "访问https://x.com吧"),
        (r"docs\plan.md", "docs/plan.md"),
        ("10.0.0.1", "host 10.0.0.1."),
    ]);
    none_stands(&[
        ("a@b", "a@b.com"),
        ("b.com", "a@b.com"),
        ("a@b.com", "a@b.com.evil.org"),
        ("a@b.com", "aa@b.com"),
        ("a@b.com", "x-a@b.com"),
        ("www.company.com", "list at www.company.com/alice!"),
        ("www.informations.com", "www.true-informations.com"),
        ("www.informations.com", "www.informations.community"),
        ("https://x.com/a", "https://x.com/a/b"),
        ("https://x.com/a", "https://x.com/a?q=1"),
        ("x.com", "x.com/a"),
        ("bill.txt", "old-bill.txt"),
        ("plan.md", "docs/plan.md"),
        ("token", "https://x.com/?token=abc"),
        ("10.0.0.1", "10.0.0.12"),
    ]);
}

#[test]
fn dates_and_times() {
    all_stand(&[
        ("2023-12-05", "due 2023-12-05."),
        ("2023-12-05", "date: '2023-12-05'"),
        ("2023-12-05", "December 5, 2023"),
        ("2023-12-05", "the 5th of December 2023"),
        ("5 Dec 2023", "2023/12/05"),
        ("2023-12-05", "05.12.2023"),
        ("2023-12-05", "2023-12-05T10:00:00Z"),
        ("2024-05-19 12:00", "start_time: 2024-05-19 12:00:00"),
        ("2024-05-19T12:00:00", "on 2024-05-19 12:00"),
        ("13:30", "at 1:30 PM"),
        ("6 PM", "at 18:00"),
        ("18:00", "at 6pm"),
    ]);
    none_stands(&[
        ("2023-12-05", "2023-12-051"),
        ("2023-12-05", "2023-12-06"),
        ("2023-12", "2023-12-05"),
        ("12-05", "2023-12-05"),
        ("9:30", "19:30"),
        ("9:30", "9:30:15"),
        ("2024-05-19 12:00", "2024-05-19 13:00"),
    ]);
}

/// What nobody sees must not keep two texts apart, nor be used to hide that they are the same.
#[test]
fn invisible_characters_do_not_count() {
    all_stand(&[
        ("Ann", "A\u{200d}nn"),
        ("US133", "US\u{ad}133"),
        ("a@b.com", "a@\u{2060}b.com"),
        ("Ann", "\u{202e}Ann"),
    ]);
}

/// Many readings of many places must not multiply: this ends at once, or not in a lifetime.
#[test]
fn ambiguous_texts_are_searched_in_bounded_time() {
    let text = "12 345 pm ".repeat(400);
    let value = format!("{}zebra", "12 345 pm ".repeat(200));
    assert!(!stands(&value, &format!("zebra {text}")));
    assert!(stands(&value, &format!("{text} zebra")));
}

/// Whatever a text is made of, looking it up does not panic, and it stands in itself if it holds a word at all.
#[test]
fn every_text_stands_in_itself() {
    const PIECES: [&str; 58] = [
        "a",
        "Ann",
        "5",
        "12",
        "345",
        "000",
        "4 000",
        "1,000.5",
        "DE89",
        "3704",
        "0044",
        "0532",
        "NWBK",
        "@",
        ".",
        ",",
        "-",
        "_",
        "/",
        "'",
        "''",
        "'s",
        "\"",
        " ",
        " ",
        " ",
        "\n",
        "\u{a0}",
        ":",
        "(",
        ")",
        "[",
        "+",
        "#",
        "https://",
        "www.",
        "x.com",
        "?q=1",
        "2023-12-05",
        "T12:00",
        "09:30",
        "pm",
        "December",
        "2023",
        "北",
        "京",
        "万",
        "アン",
        "ー",
        "김철수",
        "에게",
        "e\u{301}",
        "\u{301}",
        "\\",
        "\\n",
        "\\u00e9",
        "\u{200d}",
        "ß",
    ];
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut with_words = 0;
    for _ in 0..20_000 {
        let length = 1 + next(9);
        let text: String = (0..length).map(|_| PIECES[next(PIECES.len())]).collect();
        let normal = super::normalise::normalise(&text);
        if !super::words::words(&normal).is_empty() {
            with_words += 1;
            assert!(stands(&text, &text), "{text:?}: {:?}", super::words::words(&normal));
        }
    }
    assert!(with_words > 15_000);
}
