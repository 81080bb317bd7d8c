//! A server of other people's that speaks S3 (moto), with an empty bucket, as a place for snapshots.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use super::{broker::free_port, checkout};
use crate::binary::wait_until;

const BUCKET: &str = "recant";

/// The server; it ends when this is dropped.
pub struct S3 {
    server: Child,
    port: u16,
}

impl S3 {
    /// Starts one.
    pub fn start() -> S3 {
        let script = checkout().join("scripts/install-s3-server");
        let output = Command::new(script).stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(output.status.success(), "scripts/install-s3-server failed");
        let interpreter = String::from_utf8(output.stdout).expect("a path");
        let port = free_port();
        let mut command = Command::new(interpreter.trim());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let s3 = S3 { server, port };
        wait_until("the server makes a bucket", || s3.make_bucket().ok().filter(|made| *made));
        s3
    }

    fn make_bucket(&self) -> std::io::Result<bool> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            connection,
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    }

    /// Where snapshots go.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/of/states")
    }

    /// What the client has to know beyond that, as variables.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ]
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
