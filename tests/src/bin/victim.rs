//! The process that `crash` kills (`victim live key=value …`), one that follows it (`victim follow DATA SEEN [audits]`), and one
//! that serves a log on Kafka until it dies (`victim kafka key=value …`).

use std::{path::Path, process::ExitCode};

use recant_tests::{
    crash::{followers, victim},
    kafka,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["live", orders @ ..] => {
            let orders: Vec<String> = orders.iter().map(|order| (*order).to_owned()).collect();
            victim::Orders::parse(&orders).map_or(ExitCode::from(2), |orders| victim::live(&orders))
        }
        ["kafka", orders @ ..] => {
            let orders: Vec<String> = orders.iter().map(|order| (*order).to_owned()).collect();
            kafka::victim::serve(&orders)
        }
        ["follow", data, seen, rest @ ..] => followers::read(Path::new(data), Path::new(seen), *rest == ["audits"]),
        _ => ExitCode::from(2),
    }
}
