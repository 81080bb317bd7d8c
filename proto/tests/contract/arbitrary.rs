//! Arbitrary events, built from the descriptors: a field that is added to the contract is in them at once.

use proptest::{collection, option, prelude::*};
use prost_types::{
    DescriptorProto, FieldDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use recant_proto::v1::Event;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::descriptors;

/// Any event that the contract can express, valid or not, except numbers that JSON cannot write.
pub fn event() -> impl Strategy<Value = Event> {
    message(&descriptors::messages(), ".recant.v1.Event").prop_map(|json| Event::deserialize(json).unwrap())
}

/// The JSON of any message of that type: each field there or not, of each oneof one member or none.
fn message(messages: &[DescriptorProto], type_name: &str) -> BoxedStrategy<Value> {
    let message = descriptors::message(messages, type_name).unwrap();
    let mut members: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
    let mut choices: Vec<Vec<BoxedStrategy<(String, Value)>>> = vec![Vec::new(); message.oneof_decl.len()];
    for field in &message.field {
        let name = field.name().to_owned();
        let member = field_value(messages, field).prop_map(move |value| (name.clone(), value)).boxed();
        match field.oneof_index {
            Some(index) if !field.proto3_optional() => choices[index as usize].push(member),
            _ => members.push(option::of(member).boxed()),
        }
    }
    for choice in choices.into_iter().filter(|choice| !choice.is_empty()) {
        members.push(option::weighted(0.9, proptest::strategy::Union::new(choice)).boxed());
    }
    members.prop_map(|members| Value::Object(members.into_iter().flatten().collect::<Map<String, Value>>())).boxed()
}

fn field_value(messages: &[DescriptorProto], field: &FieldDescriptorProto) -> BoxedStrategy<Value> {
    if descriptors::type_of(field).starts_with("map") {
        return collection::btree_map(text(), text(), 0..4).prop_map(|map| json!(map)).boxed();
    }
    let one = match field.r#type() {
        Type::Message => message(messages, field.type_name()),
        Type::String => text().prop_map(Value::from).boxed(),
        Type::Bytes => base64().boxed(),
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int64 => any::<i64>().prop_map(|number| json!(number.to_string())).boxed(),
        Type::Uint64 => any::<u64>().prop_map(|number| json!(number.to_string())).boxed(),
        Type::Uint32 => any::<u32>().prop_map(Value::from).boxed(),
        Type::Float => any::<f32>().prop_map(Value::from).boxed(),
        other => panic!("a type that is new to the contract: {other:?}"),
    };
    match field.label() {
        Label::Repeated => collection::vec(one, 0..4).prop_map(Value::from).boxed(),
        _ => one,
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}",
        any::<String>(),
        Just("2026-03-02T09:15:00+01:00".to_owned()),
        Just("0:41".to_owned()),
        Just("recant.control".to_owned()),
    ]
}

/// Groups of four letters are base64 of three bytes each.
fn base64() -> impl Strategy<Value = Value> {
    "([A-Za-z0-9+/]{4}){0,12}".prop_map(Value::from)
}
