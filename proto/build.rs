//! Generates the types of the contract, and their canonical JSON, from the .proto files.
use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 2] = ["proto/recant/v1/event.proto", "proto/recant/v1/change.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let encoded = descriptors.encode_to_vec();
    fs::write(out.join("descriptors.bin"), &encoded)?;
    // Maps are kept sorted, so that a message has one encoding.
    prost_build::Config::new().btree_map(["."]).compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .preserve_proto_field_names()
        .btree_map(["."])
        .build(&[".recant.v1"])?;
    Ok(())
}
