//! For every kind of file, in log and state: a cut, a flipped byte, a missing one, another directory's, a text. Either the
//! right answer comes, or a problem that says what to do; never a wrong answer, never a panic, and no acknowledged event is
//! lost without a word. `docs/damage.md` has the table of what happens, and this test reads it from there.
//!
//! `RECANT_WRITE_PAGES=1` writes the table anew, to be read before it is committed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{fs, sync::Mutex, thread};

use recant_tests::damage::{Original, Outcome, Seen, cells, page};

/// How many copies are looked at at once.
const THREADS: usize = 3;

#[test]
fn every_kind_of_damage_ends_as_the_page_says() {
    let original = Original::make("ours");
    let foreign = Original::make("theirs");
    let whole = original.see("a whole copy", &original.copy());
    assert_eq!(whole, Seen { reader: Outcome::Right, doctor: Outcome::Well, writer: Outcome::Right });

    let cells = Mutex::new(cells::all(&original.data()));
    let table = Mutex::new(page::Table::default());
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            // Not held while the cell is tried.
            let Some(cell) = cells.lock().unwrap().pop() else { break };
            let tried = thread::scope(|scope| {
                let one = scope.spawn(|| {
                    let desk = original.copy();
                    cell.apply(&desk.path("data"), &foreign.data()).then(|| original.see(&cell.to_string(), &desk))
                });
                one.join()
            });
            match tried {
                Ok(Some(seen)) => table.lock().unwrap().add(&cell, seen),
                // A cut of an empty file and the like.
                Ok(None) => {}
                Err(panic) => {
                    let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failures.lock().unwrap().push(format!("{cell}: {}", said.chars().take(300).collect::<String>()));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} cells:\n{}", failures.len(), failures.join("\n"));

    let table = table.into_inner().unwrap();
    if std::env::var_os("RECANT_WRITE_PAGES").is_some() {
        fs::write(page::path(), table.written_into(&page::text())).unwrap();
    }
    let differences = table.differences(&page::text());
    assert!(differences.is_empty(), "docs/damage.md:\n{}", differences.join("\n"));
}
