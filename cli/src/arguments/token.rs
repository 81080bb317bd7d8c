//! Arguments of `recant token`.

use clap::Args;
use recant_gateway::access::Right;

/// A token for a caller.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  recant token planner --space acme=read,write --space public=read >> access.toml\n  recant serve --listen 0.0.0.0:7470 --access access.toml\n\nThe token itself is printed on standard error, once; the file holds its hash. The how-to is docs/how-to/access.md."
)]
pub struct Token {
    /// Whom it names: this name stands in the retractions that its holder makes
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What it grants: a space, or `*` for every one, and rights of read, write, retract, operate
    #[arg(long = "space", required = true, value_name = "SPACE=RIGHT,…", value_parser = grant)]
    pub grants: Vec<(String, Vec<Right>)>,
    /// From then on it does not count; RFC 3339 with an offset
    #[arg(long, value_name = "TIME")]
    pub expires: Option<jiff::Timestamp>,
}

/// The last `=` divides: spaces can have any name.
fn grant(text: &str) -> Result<(String, Vec<Right>), String> {
    let (space, rights) = text.rsplit_once('=').ok_or("write it as SPACE=RIGHT,RIGHT")?;
    let right = |name: &str| {
        let found = Right::ALL.into_iter().find(|right| right.as_str() == name);
        found.ok_or_else(|| format!("{name:?} is not read, write, retract or operate"))
    };
    let rights = rights.split(',').map(right).collect::<Result<_, _>>()?;
    if space.is_empty() { Err("the space has no name".to_owned()) } else { Ok((space.to_owned(), rights)) }
}
