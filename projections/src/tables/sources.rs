//! Table `sources`. Key: space | source number. A source that has only been named, by a retraction, does not exist yet.

use recant_proto::v1::SourceDeclared;

use crate::{
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, numbered, read},
};

/// What is known of a source.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// All declarations merged; the id and perhaps the kind alone for one that was not declared.
    #[prost(message, optional, tag = "1")]
    pub known: Option<SourceDeclared>,
    /// Whether it exists: it was declared, or an observation came from it.
    #[prost(bool, tag = "2")]
    pub exists: bool,
    /// Whether it was declared.
    #[prost(bool, tag = "3")]
    pub declared: bool,
    /// How many observations came from it.
    #[prost(uint32, tag = "4")]
    pub observations: u32,
}

impl Row {
    /// A source that has only been named.
    pub fn named(id: &str) -> Row {
        let known = SourceDeclared { source: id.to_owned(), ..SourceDeclared::default() };
        Row { known: Some(known), exists: false, declared: false, observations: 0 }
    }

    /// What is known of it.
    pub fn known(&self) -> SourceDeclared {
        self.known.clone().unwrap_or_default()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.known.as_ref().map_or("", |known| &known.source)
    }
}

/// The key of a source.
pub fn key(space: SpaceNumber, source: u32) -> Vec<u8> {
    numbered(space, source)
}

/// The row of a source that has been named.
pub fn get(store: &impl Read, space: SpaceNumber, source: u32) -> Result<Row, StoreError> {
    read(store, Table::Sources, &key(space, source))?
        .ok_or_else(|| damaged(Table::Sources, format!("source {source} is missing")))
}
