//! The gate as a caller meets it: settings in a file, requests to a router behind it, an issuer with keys that rotate.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{Json, Router, body::Body, extract::Request, response::Response, routing::get};
use jsonwebtoken::{
    Algorithm, EncodingKey, Header, encode,
    jwk::{Jwk, JwkSet},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

const OTHER_MACHINES: &str = "0.0.0.0:7470";
const LOOPBACK: &str = "127.0.0.1:7470";

/// A file with settings.
struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn with(text: &str) -> File {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.toml");
        std::fs::write(&path, text).unwrap();
        File { _directory: directory, path }
    }

    fn rewrite(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    async fn open(&self, listen: &str) -> Result<Arc<Access>, AccessError> {
        Ok(Arc::new(Access::open(Some(&self.path), listen.parse().unwrap()).await?))
    }
}

fn token_table(name: &str, new: &NewToken, rest: &str) -> String {
    format!("[[token]]\nname = \"{name}\"\nhash = \"{}\"\nspaces = {{ acme = [\"read\"] }}\n{rest}\n", new.hash)
}

/// A router that says who called, behind the gate.
fn guarded(access: &Arc<Access>) -> Router {
    let who = |caller: Caller| async move {
        Json(json!({ "caller": caller.name(), "acme": caller.may(Right::Read, "acme") }))
    };
    let router = Router::new().route("/who", get(who)).route("/healthz", get(|| async { "fine" }));
    gate::guard(router, access)
}

fn request(path: &str, token: Option<&str>) -> Request {
    let request = Request::builder().uri(path).header("host", "localhost:7470");
    let request =
        token.into_iter().fold(request, |request, token| request.header("authorization", format!("Bearer {token}")));
    request.body(Body::empty()).unwrap()
}

async fn ask(access: &Arc<Access>, request: Request) -> (u16, Value, Response) {
    let response = guarded(access).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    (parts.status.as_u16(), json, Response::from_parts(parts, Body::empty()))
}

#[tokio::test]
async fn without_authentication_a_server_starts_for_this_machine_only() {
    let refused = Access::open(None, OTHER_MACHINES.parse().unwrap()).await.err().unwrap();
    assert!(matches!(refused, AccessError::OpenToOthers(_)), "{refused}");
    assert!(refused.to_string().contains("recant token"), "it says what to do: {refused}");
    let empty = File::with("hosts = [\"recant.example.com\"]");
    assert!(matches!(empty.open(OTHER_MACHINES).await.err().unwrap(), AccessError::OpenToOthers(_)));

    let local = Arc::new(Access::open(None, LOOPBACK.parse().unwrap()).await.unwrap());
    assert!(local.told()[0].contains("without tokens"), "{:?}", local.told());
    let (status, who, _) = ask(&local, request("/who", None)).await;
    assert_eq!((status, who), (200, json!({ "caller": null, "acme": true })));
}

#[tokio::test]
async fn a_token_is_needed_where_there_are_tokens_and_every_refusal_is_the_same() {
    let (good, expired) = (NewToken::make().unwrap(), NewToken::make().unwrap());
    let other = NewToken::make().unwrap().token;
    let file = File::with(
        &(token_table("planner", &good, "") + &token_table("gone", &expired, "expires = \"2020-01-01T00:00:00Z\"")),
    );
    let access = file.open(LOOPBACK).await.unwrap();
    let (status, who, _) = ask(&access, request("/who", Some(&good.token))).await;
    assert_eq!((status, who), (200, json!({ "caller": "planner", "acme": true })));

    let (status, missing, response) = ask(&access, request("/who", None)).await;
    assert_eq!((status, &missing["type"]), (401, &json!("unauthenticated")));
    assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"recant\"");
    for token in [expired.token.as_str(), &other, "", "a.b.c", &good.hash] {
        let (status, refused, _) = ask(&access, request("/who", Some(token))).await;
        assert_eq!((status, &refused), (401, &missing), "{token}");
    }
    let twice = Request::builder().uri("/who").header("host", "localhost");
    let twice = [&good.token, &other]
        .iter()
        .fold(twice, |request, token| request.header("authorization", format!("Bearer {token}")));
    assert_eq!(ask(&access, twice.body(Body::empty()).unwrap()).await.0, 401);
    assert_eq!(ask(&access, request("/healthz", None)).await.0, 200);
}

#[tokio::test]
async fn settings_are_read_again_and_never_open_a_server_that_had_tokens() {
    let (first, second) = (NewToken::make().unwrap(), NewToken::make().unwrap());
    let file = File::with(&token_table("first", &first, ""));
    let access = file.open(LOOPBACK).await.unwrap();
    file.rewrite(&token_table("second", &second, ""));
    access.refresh().await;
    assert_eq!(ask(&access, request("/who", Some(&first.token))).await.0, 401);
    assert_eq!(ask(&access, request("/who", Some(&second.token))).await.0, 200);
    for broken in ["", "[[token]]\nname = 1", "hosts = []"] {
        file.rewrite(broken);
        access.refresh().await;
        assert_eq!(ask(&access, request("/who", None)).await.0, 401, "{broken}");
        assert_eq!(ask(&access, request("/who", Some(&second.token))).await.0, 200, "{broken}");
    }
}

#[tokio::test]
async fn other_peoples_pages_and_names_are_refused_and_named_origins_may_read() {
    let token = NewToken::make().unwrap();
    let file =
        File::with(&("cors_origins = [\"https://console.example\"]\n".to_owned() + &token_table("a", &token, "")));
    let access = file.open(LOOPBACK).await.unwrap();
    let from = |host: &str, origin: &str, method: &str| {
        let request = Request::builder().uri("/who").method(method).header("host", host).header("origin", origin);
        request.header("authorization", format!("Bearer {}", token.token)).body(Body::empty()).unwrap()
    };
    let (status, problem, _) = ask(&access, from("rebound.example", "http://rebound.example", "GET")).await;
    assert_eq!((status, &problem["type"]), (403, &json!("forbidden")));
    assert_eq!(ask(&access, from("localhost", "http://evil.example", "GET")).await.0, 403);
    assert_eq!(ask(&access, from("localhost", "http://evil.example", "OPTIONS")).await.0, 403);

    let (status, _, response) = ask(&access, from("localhost", "https://console.example", "GET")).await;
    assert_eq!(
        (status, &response.headers()["access-control-allow-origin"]),
        (200, &"https://console.example".parse().unwrap())
    );
    let mut preflight = from("localhost", "https://console.example", "OPTIONS");
    preflight.headers_mut().remove("authorization");
    preflight.headers_mut().insert("access-control-request-method", "POST".parse().unwrap());
    assert_eq!(ask(&access, preflight).await.0, 200);
    // Of a page of its own nothing is said in CORS, so that nobody else can read it.
    let (status, _, response) = ask(&access, from("localhost", "http://localhost", "GET")).await;
    assert_eq!((status, response.headers().get("access-control-allow-origin")), (200, None));
}

/// An issuer whose keys can change.
struct Issuer {
    keys: Arc<ArcSwap<JwkSet>>,
    asked: Arc<AtomicUsize>,
    settings: String,
}

impl Issuer {
    async fn with(id: &str) -> Issuer {
        let keys = Arc::new(ArcSwap::from_pointee(JwkSet { keys: vec![public(id)] }));
        let asked = Arc::new(AtomicUsize::new(0));
        let answer = {
            let (keys, asked) = (keys.clone(), asked.clone());
            move || async move {
                asked.fetch_add(1, Ordering::SeqCst);
                Json(JwkSet::clone(&keys.load()))
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/jwks.json", get(answer))).await });
        let settings = format!(
            "[oidc]\nissuer = \"https://id.example\"\naudience = [\"recant\"]\nalgorithms = [\"EdDSA\"]\nkeys = \"{url}\"\n\
             [[oidc.grant]]\nclaim = \"groups\"\nvalue = \"readers\"\nspaces = {{ acme = [\"read\"] }}\n"
        );
        Issuer { keys, asked, settings }
    }
}

/// The private key that goes with an id: PKCS#8 of an Ed25519 key whose seed is the id's hash.
fn private(id: &str) -> EncodingKey {
    let mut der = vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend_from_slice(blake3::hash(id.as_bytes()).as_bytes());
    EncodingKey::from_ed_der(&der)
}

fn public(id: &str) -> Jwk {
    let mut key = Jwk::from_encoding_key(&private(id), Algorithm::EdDSA).unwrap();
    key.common.key_id = Some(id.to_owned());
    key
}

fn jwt(id: &str, key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::EdDSA) };
    encode(&header, claims, key).unwrap()
}

fn claims() -> Value {
    let now = Timestamp::now().as_second();
    json!({ "sub": "dana", "iss": "https://id.example", "aud": "recant", "exp": now + 600, "groups": ["readers", "x"] })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn a_jwt_names_its_caller_and_its_claims_grant() {
    let issuer = Issuer::with("k1").await;
    let access = File::with(&issuer.settings).open(OTHER_MACHINES).await.unwrap();
    let ask_with = async |token: String| ask(&access, request("/who", Some(&token))).await;
    let (status, who, _) = ask_with(jwt("k1", &private("k1"), &claims())).await;
    assert_eq!((status, who), (200, json!({ "caller": "dana", "acme": true })));
    let (status, who, _) = ask_with(jwt("k1", &private("k1"), &with("groups", json!("writers")))).await;
    assert_eq!((status, who), (200, json!({ "caller": "dana", "acme": false })));

    let now = Timestamp::now().as_second();
    let cases = [
        ("expired beyond the skew", with("exp", json!(now - 61))),
        ("not valid yet", with("nbf", json!(now + 120))),
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("for somebody else", with("aud", json!("mail"))),
        ("for nobody", with("aud", Value::Null)),
        ("without end", with("exp", Value::Null)),
        ("of nobody", with("sub", Value::Null)),
    ];
    for (case, claims) in cases {
        assert_eq!(ask_with(jwt("k1", &private("k1"), &claims)).await.0, 401, "{case}");
    }
    assert_eq!(ask_with(jwt("k1", &private("k1"), &with("exp", json!(now - 30)))).await.0, 200, "within the skew");
}

#[tokio::test]
async fn a_forged_jwt_is_nobodys() {
    let issuer = Issuer::with("k1").await;
    let access = File::with(&issuer.settings).open(OTHER_MACHINES).await.unwrap();
    let good = jwt("k1", &private("k1"), &claims());
    assert_eq!(ask(&access, request("/who", Some(&good))).await.0, 200);
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("{good}") };
    let encoded = |value: Value| base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, value.to_string());
    let public_as_secret = EncodingKey::from_secret(serde_json::to_string(&public("k1")).unwrap().as_bytes()).unwrap();
    let hmac_header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::HS256) };
    let forged = [
        ("signed by another key", jwt("k1", &private("evil"), &claims())),
        ("other claims", format!("{header}.{}.{signature}", encoded(with("sub", json!("root"))))),
        ("no signature", format!("{header}.{payload}.")),
        ("no algorithm", format!("{}.{payload}.", encoded(json!({ "alg": "none", "kid": "k1" })))),
        ("the public key as a secret", encode(&hmac_header, &claims(), &public_as_secret).unwrap()),
        ("its own key in the header", {
            let own = Header { jwk: Some(public("evil")), ..Header::new(Algorithm::EdDSA) };
            encode(&own, &claims(), &private("evil")).unwrap()
        }),
    ];
    for (case, token) in forged {
        assert_eq!(ask(&access, request("/who", Some(&token))).await.0, 401, "{case}");
    }
}

#[tokio::test]
async fn keys_rotate_and_unknown_ones_do_not_make_us_ask_without_end() {
    let issuer = Issuer::with("k1").await;
    let access = File::with(&issuer.settings).open(OTHER_MACHINES).await.unwrap();
    issuer.keys.store(Arc::new(JwkSet { keys: vec![public("k2")] }));
    assert_eq!(ask(&access, request("/who", Some(&jwt("k2", &private("k2"), &claims())))).await.0, 200);
    for number in 0..100 {
        let id = format!("unknown-{number}");
        assert_eq!(ask(&access, request("/who", Some(&jwt(&id, &private(&id), &claims())))).await.0, 401);
    }
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn settings_that_would_let_anybody_in_are_refused() {
    let good = Issuer::with("k1").await.settings;
    for (from, to) in [
        ("\"EdDSA\"", "\"HS256\""),
        ("[\"EdDSA\"]", "[]"),
        ("[\"recant\"]", "[]"),
        ("https://id.example", ""),
        ("http://127.0.0.1", "http://10.0.0.1"),
        ("issuer", "isuer"),
    ] {
        let file = File::with(&good.replacen(from, to, 1));
        assert!(file.open(LOOPBACK).await.is_err(), "{to}");
    }
}

#[tokio::test]
async fn a_certificate_is_read_again_for_the_connections_that_come_then() {
    let certificate = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name);
        std::fs::read(path).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str| {
        std::fs::write(directory.path().join("tls.crt"), certificate(&format!("{name}.crt"))).unwrap();
        std::fs::write(directory.path().join("tls.key"), certificate(&format!("{name}.key"))).unwrap();
    };
    put("first");
    let place = directory.path().display();
    let file = File::with(&format!("[tls]\ncertificate = \"{place}/tls.crt\"\nkey = \"{place}/tls.key\"\n"));
    let access = file.open(LOOPBACK).await.unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = axum_server::from_tcp_rustls(listener, access.tls().await.unwrap()).unwrap();
    tokio::spawn(server.serve(guarded(&access).into_make_service()));

    let trusting = async |name: &str| {
        let trusted = reqwest::Certificate::from_pem(&certificate(&format!("{name}.crt"))).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
        client.get(format!("https://localhost:{port}/healthz")).send().await.is_ok()
    };
    assert_eq!((trusting("first").await, trusting("second").await), (true, false));
    std::fs::write(directory.path().join("tls.crt"), "nonsense").unwrap();
    access.refresh().await;
    assert_eq!((trusting("first").await, trusting("second").await), (true, false));
    put("second");
    access.refresh().await;
    assert_eq!((trusting("first").await, trusting("second").await), (false, true));
}
