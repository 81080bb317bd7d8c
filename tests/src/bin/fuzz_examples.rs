//! Writes the examples of a fuzzing target, one file each, into a directory, from which libFuzzer begins: `make fuzz`.

use std::{fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory] = &arguments[..] else {
        return Err(io::Error::other("give a target and a directory"));
    };
    let directory = PathBuf::from(directory);
    fs::create_dir_all(&directory)?;
    for (number, example) in (recant_tests::fuzz::target(name).examples)().into_iter().enumerate() {
        fs::write(directory.join(format!("example-{number}")), example)?;
    }
    Ok(())
}
