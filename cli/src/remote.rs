//! A running server, for commands that are given `--url`: thin, since the server answers in the shapes that commands print.

use std::{collections::HashMap, time::Duration};

use anyhow::Result;
use prost::Message;
use recant_processor::standalone::NewEvent;
use recant_projections::fold::Fate;
use recant_proto::{
    position::Position,
    reject::{Code, Violation},
    v1::Event,
};
use reqwest::{Client, Method, RequestBuilder};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::failure::{Problem, Sort};

/// So long an answer is waited for; the server's own bounds are shorter.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and a space.
pub struct Remote {
    url: String,
    space: String,
    token: Option<String>,
    client: Client,
    runtime: Runtime,
}

impl Remote {
    /// At a URL.
    pub fn at(url: &str, space: &str) -> Result<Remote> {
        // Another client of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Problem::wrong(format!("--url {url:?} is no URL; it begins with http:// or https://")).into());
        }
        Ok(Remote {
            url,
            space: space.to_owned(),
            token: std::env::var("RECANT_TOKEN").ok().filter(|token| !token.is_empty()),
            client: Client::builder().timeout(PATIENCE).build()?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// What a path of the space answers, as text that lives as long as the command.
    pub fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<&'static str> {
        let request = self.request(Method::GET, &self.space, path, query)?;
        self.answer(request.header("accept", "application/json"))
    }

    /// What it answers when it is sent JSON.
    pub fn post(&self, path: &[&str], query: &[(&str, String)], body: &Value) -> Result<&'static str> {
        self.answer(self.request(Method::POST, &self.space, path, query)?.json(body))
    }

    /// Appends events, and gives the place and the fate of each.
    pub fn append(&self, events: &[NewEvent]) -> Result<Vec<(Position, Fate)>> {
        let mut fates = HashMap::new();
        let mut spaces: Vec<&str> = events.iter().map(|event| event.space.as_str()).collect();
        spaces.sort_unstable();
        spaces.dedup();
        for space in spaces {
            let of_space: Vec<usize> = (0..events.len()).filter(|index| events[*index].space == space).collect();
            let mut body = Vec::new();
            for index in &of_space {
                Event::decode(events[*index].value.as_slice())?.encode_length_delimited(&mut body)?;
            }
            let request = self.request(Method::POST, space, &["events"], &[])?;
            let request = request.header("content-type", "application/protobuf; delimited=true").body(body);
            let told: Fates = read(self.answer(request)?)?;
            for (index, item) in of_space.into_iter().zip(told.items) {
                fates.insert(index, item.place_and_fate()?);
            }
        }
        let in_order = (0..events.len()).filter_map(|index| fates.remove(&index));
        Ok(in_order.collect())
    }

    fn request(&self, method: Method, space: &str, path: &[&str], query: &[(&str, String)]) -> Result<RequestBuilder> {
        let mut url = reqwest::Url::parse(&self.url).map_err(|error| Problem::wrong(format!("--url: {error}")))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "spaces", space]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    fn answer(&self, request: RequestBuilder) -> Result<&'static str> {
        let answered = self.runtime.block_on(async {
            let response = request.send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.text().await?))
        });
        let (status, text) = answered.map_err(|error| {
            let detail = format!("{}: {:#}", self.url, anyhow::Error::from(error));
            Problem::new(Sort::CouldNot, "unreachable", "The server does not answer", detail)
        })?;
        if status.is_success() {
            return Ok(text.leak());
        }
        let told: Problem = serde_json::from_str(&text).unwrap_or_else(|_| {
            Problem::new(Sort::CouldNot, "io", "Something outside recant failed", format!("{}: {status}", self.url))
        });
        Err(Problem { sort: Problem::sort_of_status(status.as_u16()), ..told }.into())
    }
}

/// Reads an answer, which lives as long as the command.
pub fn read<T: Deserialize<'static>>(answer: &'static str) -> Result<T> {
    serde_json::from_str(answer).map_err(|error| {
        let detail = format!("the server's answer is not what this version reads: {error}");
        Problem::new(Sort::CouldNot, "format", "The answer is not one that this version can read", detail).into()
    })
}

#[derive(Deserialize)]
struct Fates {
    items: Vec<EventFate>,
}

#[derive(Deserialize)]
struct EventFate {
    position: Option<String>,
    fate: String,
    duplicate_of: Option<String>,
    #[serde(rename = "type")]
    code: Option<String>,
    detail: Option<String>,
}

impl EventFate {
    fn place_and_fate(self) -> Result<(Position, Fate)> {
        let parsed = |text: &str| text.parse::<Position>().map_err(anyhow::Error::from);
        let position = self.position.as_deref().map(parsed).transpose()?;
        let detail = self.detail.unwrap_or_default();
        let fate = match self.fate.as_str() {
            "accepted" => Fate::Accepted,
            "duplicate" => {
                Fate::Duplicate(self.duplicate_of.as_deref().map(parsed).transpose()?.map_or(0, |first| first.offset))
            }
            "skipped" => Fate::Skipped(String::new()),
            "rejected" => {
                let code = self.code.as_deref().and_then(Code::parse).unwrap_or(Code::NotInThisVersion);
                Fate::Rejected(Violation::new(code, detail))
            }
            _ => {
                let at = position.map(|position| position.to_string());
                return Err(
                    Problem { position: at, ..Problem::fate_unknown("the server has not processed it yet") }.into()
                );
            }
        };
        // What was checked here is in the log there, whatever became of it.
        let position = position.ok_or_else(|| Problem::fate_unknown("the server gave no position"))?;
        Ok((position, fate))
    }
}

/// Reads an answer that owns what it holds.
pub fn read_owned<T: DeserializeOwned>(answer: &str) -> Result<T> {
    Ok(serde_json::from_str(answer)?)
}
