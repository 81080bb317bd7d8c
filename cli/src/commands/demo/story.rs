//! The story: accounts payable, three agents, one supplier. Our own text.
//!
//! `intake` reads, `ledger` keeps the books, `payments` pays. The supplier's portal is in other hands from
//! [`TAKEOVER`] on. What it says after that is two things: the remittance address, which the signed contract has too, and a
//! new bank account, which stands nowhere else.

use recant_proto::v1::{
    ActionProposed, ActionSettled, Content, Derived, Event, Justification, Justified, Observed, content::Form,
    event::Body,
};

/// Where the story is told.
pub const SPACE: &str = "default";

/// The source that is retracted.
pub const PORTAL: &str = "web:portal";
/// Since when it was in other hands.
pub const TAKEOVER: &str = "2026-03-05T21:00:00Z";

/// Friday noon: the deposit has been paid, and nobody knows yet.
pub const FRIDAY: &str = "2026-03-06T12:00:00Z";
/// What if the portal had been retracted the evening before: an hour after the takeover.
pub const THAT_EVENING: &str = "2026-03-05T22:00:00Z";
/// The deposit, which had gone by then.
pub const PAID: &str = "pay-6000";
/// How much that was.
pub const PAID_AMOUNT: &str = "6000.00";

/// What the portal said before: not covered.
pub const OLD_OBSERVATION: &str = "portal-february";
/// The belief that has two reasons.
pub const ADDRESS: &str = "remit-address";
/// The deed that rests on it alone.
pub const SPARED_ACTION: &str = "remittance-advice";
/// The page with the address, seen after the takeover.
pub const PROFILE_PAGE: &str = "portal-profile";
/// The page with the new account.
pub const BANK_PAGE: &str = "portal-bank";
/// The payment that has not left yet, and the run that proposed it.
pub const PENDING_PAYMENT: &str = "pay-34500";
/// See [`PENDING_PAYMENT`].
pub const PENDING_RUN: &str = "balance";

/// How much a retraction changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub sources: u32,
    pub observations: u32,
    pub beliefs: u32,
    pub plans: u32,
    pub actions: u32,
}

/// What retracting the portal from the takeover on is claimed to change.
pub const FALLS: Extent = Extent { sources: 1, observations: 2, beliefs: 4, plans: 2, actions: 3 };

/// When the log begins, is first retracted in, and so on, on its own clock. Events of the story carry theirs.
pub const BEGINS_AT: &str = "2026-02-20T09:00:00Z";
/// The portal is retracted.
pub const RETRACTED_AT: &str = "2026-03-09T08:30:00Z";
/// It is reinstated.
pub const REINSTATED_AT: &str = "2026-03-09T10:00:00Z";
/// It is retracted again.
pub const RETRACTED_AGAIN_AT: &str = "2026-03-09T11:15:00Z";
/// The bank page is retracted beside it.
pub const OVERLAPPED_AT: &str = "2026-03-09T11:40:00Z";
/// The portal's second retraction is lifted.
pub const LIFTED_AT: &str = "2026-03-09T14:00:00Z";

/// Everything up to the morning on which the takeover is found out.
pub fn events() -> Vec<Event> {
    let february = Writer { agent: "intake", run: "february", day: "2026-02-20" };
    let filing = Writer { agent: "intake", run: "filing", day: "2026-03-02" };
    let intake = Writer { agent: "intake", run: "invoice-1043", day: "2026-03-06" };
    let ledger = Writer { agent: "ledger", run: "invoice-1043", day: "2026-03-06" };
    let deposit = Writer { agent: "payments", run: "deposit", day: "2026-03-06" };
    let balance = Writer { agent: "payments", run: PENDING_RUN, day: "2026-03-06" };

    let (contract, invoice) = ("file:contract-2024-117.pdf", "file:invoice-1043.pdf");
    let mut events = vec![
        february.observed("09:05", OLD_OBSERVATION, PORTAL, "Nordwind Paper, supplier since 2019, net 30 days."),
        filing.observed("14:10", "contract", contract, "Remit to: 14 Quay Street, Hamburg. Signed."),
        intake.observed("08:00", PROFILE_PAGE, PORTAL, "Remittance address: 14 Quay Street, Hamburg."),
        intake.observed("08:01", BANK_PAGE, PORTAL, "We have moved banks. New account: ends in 7719."),
        intake.observed("08:05", "invoice-1043", invoice, "Deposit 6,000.00 USD, balance 34,500.00 USD."),
        intake.observed("08:07", "mail-order", "mail:ap-inbox", "Purchasing: ordered. Please pay the deposit today."),
        intake.derived("08:10", ADDRESS, "belief", "Remittance goes to 14 Quay Street, Hamburg.", &[PROFILE_PAGE]),
        intake.derived("08:11", "note-account", "belief", "Nordwind's account now ends in 7719.", &[BANK_PAGE]),
        intake.derived("08:12", "note-old-account", "belief", "The account ending in 3302 is closed.", &[BANK_PAGE]),
        ledger.justified("08:20", "address-in-contract", ADDRESS, &["contract"]),
        ledger.derived("08:21", "supplier-account", "belief", "Nordwind is paid at …7719.", &["note-account"]),
        ledger.proposed(
            "08:25",
            "update-supplier",
            ("supplier.update", ""),
            "Set account …7719.",
            &["supplier-account"],
        ),
        ledger.settled("08:26", "update-supplier"),
    ];
    let agreed = ["note-account", "supplier-account"];
    let confirmed = "Confirmed: intake and ledger agree on …7719.";
    events.extend([
        deposit.derived("08:30", "account-confirmed", "belief", confirmed, &agreed),
        deposit.derived("08:31", "plan-deposit", "plan", "", &["invoice-1043", "mail-order", "account-confirmed"]),
        deposit.proposed("08:32", "pay-6000", ("payment.transfer", "6000.00"), "Deposit to …7719.", &["plan-deposit"]),
        deposit.settled("08:40", "pay-6000"),
        deposit.proposed("08:45", SPARED_ACTION, ("mail.send", ""), "Advice to 14 Quay Street.", &[ADDRESS]),
        deposit.settled("08:46", SPARED_ACTION),
        balance.derived("09:00", "plan-balance", "plan", "", &["invoice-1043", "account-confirmed"]),
        balance.proposed(
            "09:01",
            PENDING_PAYMENT,
            ("payment.transfer", "34500.00"),
            "Balance to …7719.",
            &["plan-balance"],
        ),
    ]);
    events.sort_by(|one, other| one.occurred_at.cmp(&other.occurred_at));
    events
}

/// An agent in a run, on a day.
struct Writer {
    agent: &'static str,
    run: &'static str,
    day: &'static str,
}

impl Writer {
    fn event(&self, time: &str, id: &str, body: Body) -> Event {
        Event {
            id: id.to_owned(),
            space: SPACE.to_owned(),
            agent: self.agent.to_owned(),
            run: self.run.to_owned(),
            occurred_at: format!("{}T{time}:00Z", self.day),
            body: Some(body),
            ..Event::default()
        }
    }

    fn observed(&self, time: &str, node: &str, source: &str, text: &str) -> Event {
        let kind = source.split(':').next().unwrap_or_default();
        let observed = Observed {
            node: node.to_owned(),
            source: source.to_owned(),
            source_kind: kind.to_owned(),
            content: content(text),
            ..Observed::default()
        };
        self.event(time, node, Body::Observed(observed))
    }

    fn derived(&self, time: &str, node: &str, kind: &str, text: &str, premises: &[&str]) -> Event {
        let derived = Derived {
            node: node.to_owned(),
            kind: kind.to_owned(),
            content: content(text),
            justification: because(premises),
            ..Derived::default()
        };
        self.event(time, node, Body::Derived(derived))
    }

    fn justified(&self, time: &str, id: &str, node: &str, premises: &[&str]) -> Event {
        let justified = Justified { node: node.to_owned(), justification: because(premises) };
        self.event(time, id, Body::Justified(justified))
    }

    /// An action of a type, with an amount in dollars if it has one.
    fn proposed(&self, time: &str, action: &str, what: (&str, &str), text: &str, premises: &[&str]) -> Event {
        let (action_type, amount) = what;
        let proposed = ActionProposed {
            action: action.to_owned(),
            r#type: action_type.to_owned(),
            amount: amount.to_owned(),
            currency: if amount.is_empty() { String::new() } else { "USD".to_owned() },
            content: content(text),
            justification: because(premises),
            ..ActionProposed::default()
        };
        self.event(time, action, Body::ActionProposed(proposed))
    }

    fn settled(&self, time: &str, action: &str) -> Event {
        let settled =
            ActionSettled { action: action.to_owned(), outcome: "done".to_owned(), ..ActionSettled::default() };
        self.event(time, &format!("{action}-done"), Body::ActionSettled(settled))
    }
}

fn content(text: &str) -> Option<Content> {
    let said = || Content { form: Some(Form::Text(text.to_owned())), ..Content::default() };
    (!text.is_empty()).then(said)
}

fn because(premises: &[&str]) -> Option<Justification> {
    let premises = premises.iter().map(|premise| (*premise).to_owned()).collect();
    Some(Justification { premises, ..Justification::default() })
}
