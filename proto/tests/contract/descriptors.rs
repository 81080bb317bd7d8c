//! The contract as the compiler of the .proto files saw it.

use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Every message of `recant.v1` that is not the entry of a map.
pub fn messages() -> Vec<DescriptorProto> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    let files = FileDescriptorSet::decode(bytes.as_slice()).unwrap().file;
    files.into_iter().filter(|file| file.package() == "recant.v1").flat_map(|file| file.message_type).collect()
}

/// A message by the name that a field has for its type, such as `.recant.v1.Event`.
pub fn message(messages: &[DescriptorProto], type_name: &str) -> Option<DescriptorProto> {
    messages.iter().find(|message| type_name == format!(".recant.v1.{}", message.name())).cloned()
}

/// A field's type as the .proto file writes it.
pub fn type_of(field: &FieldDescriptorProto) -> String {
    let scalar = format!("{:?}", field.r#type()).to_lowercase();
    let name = match field.r#type() {
        Type::Message if field.type_name().ends_with("AttributesEntry") => return "map<string, string>".to_owned(),
        Type::Message => field.type_name().trim_start_matches(".recant.v1."),
        _ => &scalar,
    };
    match field.label() {
        Label::Repeated => format!("repeated {name}"),
        _ if field.proto3_optional() => format!("optional {name}"),
        _ => name.to_owned(),
    }
}
