//! Resources: `recant://SPACE/nodes/ID`, `recant://SPACE/sources/ID` and `recant://SPACE/retractions/ID`, each part percent-encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use recant_proto::id::ID_BYTES_MAX;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::Value;

use super::{
    answer::Refusal,
    call::Call,
    quoting::NOBODY_VOUCHES,
    shapes::{Explained, Show, object},
    tools::asking::note_shown,
};
use crate::problem::Problem;

const SCHEME: &str = "recant://";

/// What stands in a part of a URI as it is (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// So many resources are listed: sources and retractions, which lead to everything else.
const LISTED_MAX: usize = 1_000;

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// A node.
    Node,
    /// A source.
    Source,
    /// A retraction.
    Retraction,
}

impl ResourceKind {
    const ALL: [ResourceKind; 3] = [ResourceKind::Node, ResourceKind::Source, ResourceKind::Retraction];

    fn segment(self) -> &'static str {
        match self {
            ResourceKind::Node => "nodes",
            ResourceKind::Source => "sources",
            ResourceKind::Retraction => "retractions",
        }
    }
}

/// Which resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceId {
    /// Its space.
    pub space: String,
    /// What it is.
    pub kind: ResourceKind,
    /// Its id.
    pub id: String,
}

impl ResourceId {
    /// Reads a URI.
    pub fn parse(uri: &str) -> Option<ResourceId> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let (space, segment, id) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = ResourceKind::ALL.into_iter().find(|kind| kind.segment() == segment)?;
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8().ok()?.into_owned();
            (1..=ID_BYTES_MAX).contains(&text.len()).then_some(text)
        };
        let resource = ResourceId { space: decoded(space)?, kind, id: decoded(id)? };
        parts.next().is_none().then_some(resource)
    }

    /// Its URI.
    pub fn to_uri(&self) -> String {
        let encoded = |part| utf8_percent_encode(part, ENCODED);
        format!("{SCHEME}{}/{}/{}", encoded(&self.space), self.kind.segment(), encoded(&self.id))
    }
}

/// How URIs are made.
pub fn templates() -> Vec<ResourceTemplate> {
    let about = |kind| match kind {
        ResourceKind::Node => {
            "A node with its reasons and its standing; to read it makes it a premise of what you write"
        }
        ResourceKind::Source => "A source: what is known of it, and which retractions name it",
        ResourceKind::Retraction => "A retraction: what it covers, why, and who asked for it",
    };
    let template = |kind: ResourceKind| {
        ResourceTemplate::new(format!("{SCHEME}{{space}}/{}/{{id}}", kind.segment()), kind.segment())
            .with_description(about(kind))
            .with_mime_type("application/json")
    };
    ResourceKind::ALL.map(template).into()
}

/// The sources and the retractions of a space.
pub async fn list(call: &Call<'_>) -> Result<Vec<Resource>, Refusal> {
    let (sources, retractions) =
        call.read(|reading| Ok((reading.sources()?.items, reading.retractions()?.items))).await?;
    let resource = |kind, id: String| {
        let uri = ResourceId { space: call.space.clone(), kind, id: id.clone() }.to_uri();
        Resource::new(uri, id).with_mime_type("application/json")
    };
    let sources = sources.into_iter().map(|source| resource(ResourceKind::Source, source.id));
    let retractions = retractions.into_iter().map(|retraction| resource(ResourceKind::Retraction, retraction.id));
    Ok(retractions.chain(sources).take(LISTED_MAX).collect())
}

/// Reads a resource.
pub async fn read(call: &Call<'_>, resource: &ResourceId) -> Result<ResourceContents, Refusal> {
    let id = resource.id.clone();
    let absent = |what| Problem::not_found(what, &resource.id);
    let found = match resource.kind {
        ResourceKind::Node => {
            let explanation = call.read(move |reading| Ok(reading.explain(&id, 1)?)).await?;
            let node = explanation.and_then(|explanation| explanation.nodes.into_iter().next());
            let explained = Explained::of(node.ok_or_else(|| absent("node"))?, Show::Believed);
            note_shown(call, std::iter::once(&explained.node));
            let mut shown = object(&explained);
            shown.insert("note".to_owned(), Value::String(NOBODY_VOUCHES.to_owned()));
            shown
        }
        ResourceKind::Source => {
            let sources = call.read(|reading| Ok(reading.sources()?.items)).await?;
            object(&sources.into_iter().find(|source| source.id == id).ok_or_else(|| absent("source"))?)
        }
        ResourceKind::Retraction => {
            let retractions = call.read(|reading| Ok(reading.retractions()?.items)).await?;
            object(&retractions.into_iter().find(|retraction| retraction.id == id).ok_or_else(|| absent("retraction"))?)
        }
    };
    let text = Value::Object(found).to_string();
    Ok(ResourceContents::text(text, resource.to_uri()).with_mime_type("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_can_stand_in_a_uri() {
        for id in ["b-1", "web:https://a.example/x?y#z", "a/b", "..", "%2F", "é \u{0}", "recant://"] {
            for kind in ResourceKind::ALL {
                let resource = ResourceId { space: "a b/c".to_owned(), kind, id: id.to_owned() };
                assert_eq!(ResourceId::parse(&resource.to_uri()), Some(resource));
            }
        }
    }

    #[test]
    fn what_is_no_uri_of_ours_is_none() {
        let long = format!("recant://a/nodes/{}", "x".repeat(ID_BYTES_MAX + 1));
        for uri in [
            "",
            "recant://a/nodes",
            "recant://a/nodes/",
            "recant:///nodes/b",
            "recant://a/other/b",
            "recant://a/nodes/b/c",
            "recant://a/nodes/%ff",
            "file:///a/nodes/b",
            &long,
        ] {
            assert_eq!(ResourceId::parse(uri), None, "{uri}");
        }
    }
}
