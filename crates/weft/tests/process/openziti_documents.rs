//! A network as a document of OpenZiti: what leaves, what enters, and twice the same.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use serde_json::{Value, json};
use weft_identity::{Authority, AuthoritySpec};

use crate::network::{NetworkFolder, PASSWORD, USER, free_port};
use crate::program::{Program, text, weft};
use crate::wait::{PATIENCE, until};

struct Scene {
    network: Program,
    place: NetworkFolder,
}

impl Scene {
    async fn start() -> Self {
        let place = NetworkFolder::empty();
        let mut network = place.quickstart();
        network.says("The network is up", PATIENCE).await;
        let scene = Self { network, place };
        let url = scene.url();
        scene.weft(0, &["login", &url, "-u", USER, "-p", PASSWORD, "--yes"]).await;
        scene
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.place.control)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.place.folder().join(name), text).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.place.folder().join(name)).unwrap()
    }

    /// What a command says that ends with this status.
    async fn weft(&self, status: i32, args: &[&str]) -> String {
        let done = weft(self.place.folder(), args).await;
        assert_eq!(done.status.code(), Some(status), "weft {args:?}\n{}", text(&done));
        text(&done)
    }

    /// An entity of a kind, as the API shows it.
    async fn shown(&self, kind: &str, name: &str) -> Value {
        let said = self.weft(0, &["show", kind, name, "--output", "json"]).await;
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    async fn stop(self) {
        assert!(self.network.stop().await.success());
    }
}

fn authority() -> String {
    Authority::make_root(&AuthoritySpec::new("Company"), SystemTime::now())
        .unwrap()
        .certificate()
        .to_pem()
}

/// A network in weft's form that has every kind, and only what both forms have a place for.
fn rules() -> Value {
    json!({
        "config-types": [{"name": "door", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}],
        "configs": [
            {"name": "door1", "configType": "door", "data": {"n": 7_000_000}},
            {"name": "web-host", "configType": "host.v1", "data": {"protocol": "tcp", "address": "127.0.0.1", "port": 80}},
        ],
        "cas": [{"name": "company", "certPem": authority(), "isAuthEnabled": true,
            "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": false, "identityRoles": ["staff"]}],
        "external-jwt-signers": [
            {"name": "idp", "issuer": "https://idp.example", "audience": "weft", "enabled": true,
                "jwksEndpoint": "https://idp.example/jwks", "scopes": ["email"], "enrollToCertEnabled": true},
            {"name": "other", "issuer": "https://other.example", "audience": "weft", "enabled": false,
                "jwksEndpoint": "https://other.example/jwks"},
        ],
        "auth-policies": [{"name": "strict",
            "primary": {"cert": {"allowed": true}, "extJwt": {"allowed": true, "allowedSigners": ["idp"]}},
            "secondary": {"requireTotp": true, "requireExtJwtSigner": "other"}}],
        "posture-checks": [
            {"name": "mac", "typeId": "MAC", "macAddresses": ["001122334455"], "roleAttributes": ["devices"]},
            {"name": "dom", "typeId": "DOMAIN", "domains": ["example.com"]},
            {"name": "os", "typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": []},
                {"type": "Windows", "versions": [">=10.0.0"]}]},
            {"name": "proc", "typeId": "PROCESS", "process": {"osType": "Linux", "path": "/opt/agent"}},
            {"name": "multi", "typeId": "PROCESS_MULTI", "semantic": "AllOf",
                "processes": [{"osType": "Linux", "path": "/usr/bin/true"}]},
            {"name": "mfa", "typeId": "MFA", "timeoutSeconds": 60, "promptOnWake": true},
        ],
        "services": [
            {"name": "web", "configs": ["web-host"], "roleAttributes": ["intranet"], "terminatorStrategy": "random"},
            {"name": "plain", "encryptionRequired": false, "maxIdleTimeMillis": 60_000, "tags": {"a": "b"}},
        ],
        "edge-routers": [
            {"name": "paris", "roleAttributes": ["eu"], "isTunnelerEnabled": true, "cost": 7},
            {"name": "oslo", "noTraversal": true, "disabled": true},
        ],
        "identities": [
            {"name": "laptop", "roleAttributes": ["staff"], "externalId": "x-1", "defaultHostingCost": 4, "appData": {"k": "v"}},
            {"name": "chef", "isAdmin": true, "authPolicy": "strict"},
            {"name": "paris", "type": "Router", "roleAttributes": ["hosts"]},
        ],
        "service-policies": [
            {"name": "staff-web", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#staff", "@chef"],
                "serviceRoles": ["#intranet", "@plain"], "postureCheckRoles": ["#devices"]},
            {"name": "web-host", "type": "Bind", "identityRoles": ["@paris"], "serviceRoles": ["@web"]},
        ],
        "edge-router-policies": [{"name": "eu", "identityRoles": ["#staff", "@laptop"], "edgeRouterRoles": ["#eu", "@oslo"]}],
        "service-edge-router-policies": [{"name": "all", "serviceRoles": ["@web"], "edgeRouterRoles": ["#all"]}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_leave_and_enter_again_as_they_were() {
    let (one, other) = (Scene::start().await, Scene::start().await);
    one.put("rules.yaml", &rules().to_string());
    one.weft(0, &["apply", "rules.yaml", "--yes"]).await;

    for (format, file) in [("yaml", "left.yaml"), ("json", "left.json")] {
        let leaving = ["export", "--format", "openziti", "--output", format, "-o", file];
        let said = one.weft(0, &leaving).await;
        assert!(said.contains("2 identities and 3 edge routers enroll anew"), "{said}");
        assert!(said.contains("cas `company`, isVerified: it is verified anew"), "{said}");
        assert!(said.contains("`ziti ops import FILE"), "{said}");
        assert_eq!(said.matches("weft: ").count(), 3, "{said}");
        // An export replaces itself where it can be told from others; and it changes nothing where it comes from.
        let again = if format == "yaml" { 0 } else { 2 };
        one.weft(again, &leaving).await;
        let same = one.weft(0, &["diff", file, "--exit-code"]).await;
        assert!(same.contains("nothing changes") && !same.contains("weft: "), "{same}");
    }
    one.weft(0, &["export", "-o", "own.yaml"]).await;
    one.weft(0, &["diff", "own.yaml", "--prune", "--exit-code"]).await;
    let left: Value = serde_json::from_str(&one.get("left.json")).unwrap();
    assert!(left["edgeRouters"][0].get("enrollmentToken").is_none(), "{left}");

    other.put("left.yaml", &one.get("left.yaml"));
    let entering = ["apply", "left.yaml", "--yes", "--tokens", "tokens"];
    let said = other.weft(0, &entering).await;
    assert!(said.contains("2 identities and 2 edge routers enroll anew"), "{said}");
    for token in ["laptop", "chef", "paris", "oslo"] {
        let path = format!("tokens/{token}.jwt");
        assert!(other.place.folder().join(&path).is_file(), "{path}: {said}");
    }
    let again = other.weft(0, &["apply", "left.yaml", "--yes"]).await;
    assert!(again.contains("nothing changes") && !again.contains("weft: "), "{again}");

    // Exported again, the rules are the same as those that left.
    other.weft(0, &["export", "--format", "openziti", "-o", "back.yaml"]).await;
    assert_eq!(other.get("back.yaml"), one.get("left.yaml"));
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_export_of_the_original_lacks_stays_where_it_is() {
    let scene = Scene::start().await;
    let there = json!({
        "posture-checks": [{"name": "dom", "typeId": "DOMAIN", "domains": ["example.com"]}],
        "services": [{"name": "web", "authenticatedEnds": true, "maxIdleTimeMillis": 5000}],
        "identities": [{"name": "laptop", "roleAttributes": ["staff"], "appData": {"k": "v"}, "serviceHostingCosts": {"web": 5}}],
        "service-policies": [{"name": "staff", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#staff"],
            "serviceRoles": ["@web"], "postureCheckRoles": ["@dom"]}],
    });
    scene.put("there.yaml", &there.to_string());
    scene.weft(0, &["apply", "there.yaml", "--yes"]).await;

    let export = json!({
        "identities": [
            {"name": "laptop", "authPolicy": "@Default", "typeId": "Default", "isAdmin": false, "externalId": null,
                "roleAttributes": ["people"], "interfaces": null, "disabled": false, "isMfaEnabled": true, "tags": {}},
            {"name": "root", "authPolicy": "@Default", "typeId": "Default", "isAdmin": true, "isDefaultAdmin": true,
                "roleAttributes": [], "tags": {}},
            {"name": "phone", "authPolicy": "@Default", "typeId": "Default", "isAdmin": false, "disabled": true,
                "isMfaEnabled": true, "roleAttributes": []},
        ],
        "postureChecks": [{"name": "dom", "typeId": "DOMAIN", "domains": ["example.com"], "roleAttributes": [], "tags": {}}],
        "servicePolicies": [
            {"name": "staff", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#people", "@root"],
                "serviceRoles": ["@web"], "postureCheckRoles": [], "tags": {}},
            {"name": "new", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#people"],
                "serviceRoles": ["@web"], "postureCheckRoles": [], "tags": {}},
        ],
        "services": [{"name": "web", "configs": [], "encryptionRequired": true, "roleAttributes": [],
            "terminatorStrategy": "smartrouting", "tags": {}}],
    });
    scene.put("export.json", &format!("{export:#}"));
    let said = scene.weft(0, &["apply", "export.json", "--yes"]).await;
    assert!(said.contains("2 created, 2 changed"), "{said}");
    let policies =
        "service-policies `staff`, `new`, postureCheckRoles: `ziti ops export` leaves out";
    assert!(said.contains(policies), "{said}");
    assert!(said.contains("identities `phone`, disabled: it is enabled here"), "{said}");
    assert!(said.contains("identities `phone`, isMfaEnabled: "), "{said}");
    assert!(!said.contains("`laptop`, isMfaEnabled"), "{said}");
    assert!(said.contains("1 identity and 0 edge routers enroll anew"), "{said}");

    let laptop = scene.shown("identity", "laptop").await;
    assert_eq!(laptop["roleAttributes"], json!(["people"]));
    assert_eq!(laptop["appData"], json!({"k": "v"}));
    assert_eq!(laptop["serviceHostingCosts"].as_object().unwrap().len(), 1, "{laptop}");
    let web = scene.shown("service", "web").await;
    assert_eq!(
        (&web["authenticatedEnds"], &web["maxIdleTimeMillis"]),
        (&json!(true), &json!(5000))
    );
    let policy = scene.shown("service-policy", "staff").await;
    assert_eq!(policy["postureCheckRolesDisplay"][0]["name"], "@dom", "{policy}");
    // The default administrator of the other network is that of this one.
    let roles = policy["identityRolesDisplay"].as_array().unwrap();
    assert!(roles.iter().any(|role| role["name"] == "@Default Admin"), "{policy}");
    scene.weft(4, &["show", "identity", "root"]).await;
    let again = scene.weft(0, &["apply", "export.json", "--yes"]).await;
    assert!(again.contains("nothing changes"), "{again}");

    // Mistakes have their place, and nothing is changed.
    let bad = "servicePolicies:\n  - name: p\n    type: Dial\n    semantic: AnyOf\n    serviceRoles: []\n    \
               identityRoles:\n      - '@nobody'\nservices:\n  - name: s\n    configs:\n      - '@none'\n";
    scene.put("bad.yaml", bad);
    let refused = scene.weft(5, &["apply", "bad.yaml", "--yes"]).await;
    assert!(refused.contains("bad.yaml:7: service-policies `p`, identityRoles.0: "), "{refused}");
    assert!(
        refused.contains("bad.yaml:11: services `s`, configs.0: there is no config `none`"),
        "{refused}"
    );
    scene.put("bad.json", "{\"edgeRouters\": [],\n \"transitRouters\": []}");
    let refused = scene.weft(5, &["diff", "bad.json"]).await;
    assert!(refused.contains("bad.json:2: `transitRouters` is no section"), "{refused}");
    scene.stop().await;
}

/// The original's program in a folder of its own.
struct Ziti<'z> {
    program: &'z str,
    folder: &'z Path,
}

impl Ziti<'_> {
    /// A command, with the folder of its login.
    fn command(&self, login: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        let home = self.folder.join(login);
        fs::create_dir_all(&home).unwrap();
        command.args(args).current_dir(self.folder).stdin(Stdio::null());
        command.env("ZITI_CONFIG_DIR", home.join("config")).env("HOME", home);
        command
    }

    /// What a command says, which has to succeed.
    fn says(&self, login: &str, args: &[&str]) -> String {
        let done = self.command(login, args).output().unwrap();
        let said = text(&done);
        assert!(done.status.success(), "ziti {args:?}: {said}");
        said
    }

    /// Runs an import; the numbers of what it created, by kind.
    fn creates(&self, login: &str, file: &str) -> Vec<(String, u32)> {
        let said = self.says(login, &["ops", "import", file]);
        let parts = said.split("Created ").skip(1);
        let counted = parts.filter_map(|part| {
            let (count, rest) = part.split_once(' ')?;
            let kind: String = rest.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
            Some((kind, count.parse().ok()?))
        });
        counted.collect()
    }
}

/// A network of the original, killed when dropped.
struct Original(Child);

impl Drop for Original {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_original_takes_what_leaves_and_writes_what_enters() {
    let Ok(program) = std::env::var("WEFT_INTEROP_ZITI") else {
        eprintln!("SKIPPED: WEFT_INTEROP_ZITI names no program of the original");
        return;
    };
    let (one, other) = (Scene::start().await, Scene::start().await);
    one.put("rules.yaml", &rules().to_string());
    one.weft(0, &["apply", "rules.yaml", "--yes"]).await;
    let folder = one.place.folder();
    let ziti = Ziti { program: &program, folder };
    let login = |name: &str, url: &str, password: &str| {
        ziti.says(name, &["edge", "login", url, "-u", USER, "-p", password, "-y"])
    };

    // Its export of weft's network is that network, and so is its import of weft's export.
    login("weft", &one.url(), PASSWORD);
    for (format, file) in [("JSON", "written.json"), ("YAML", "written.yaml")] {
        ziti.says("weft", &["ops", "export", "--output-format", format, "-o", file]);
        let same = one.weft(0, &["diff", file, "--exit-code"]).await;
        assert!(same.contains("nothing changes"), "{same}");
    }
    one.weft(0, &["export", "--format", "openziti", "--output", "json", "-o", "left.json"]).await;
    let created = ziti.creates("weft", "left.json");
    assert_eq!(created.len(), 12, "{created:?}");
    assert!(created.iter().all(|(_, count)| *count == 0), "{created:?}");
    // A network of weft is filled by it, too.
    login("other", &other.url(), PASSWORD);
    ziti.creates("other", "left.json");
    other.put("left.json", &one.get("left.json"));
    let same = other.weft(0, &["diff", "left.json", "--exit-code"]).await;
    assert!(same.contains("nothing changes"), "{same}");

    // From weft into a network of the original, and from there into weft.
    let (control, router) = (free_port().to_string(), free_port().to_string());
    let home = folder.join("quickstart").display().to_string();
    let quickstart = [
        "edge",
        "quickstart",
        "--home",
        &home,
        "--ctrl-address",
        "localhost",
        "--ctrl-port",
        &control,
        "--router-address",
        "localhost",
        "--router-port",
        &router,
        "-u",
        USER,
        "-p",
        PASSWORD,
    ];
    let log = fs::File::create(folder.join("quickstart.log")).unwrap();
    let mut original = ziti.command("quickstart-home", &quickstart);
    let original = original.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let original = Original(original);
    let url = format!("https://localhost:{control}");
    let attempt = async || {
        let done =
            ziti.command("original", &["edge", "login", &url, "-u", USER, "-p", PASSWORD, "-y"]);
        let mut done = done;
        let done = done.output().unwrap();
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    until("the original's controller takes a login", PATIENCE, attempt).await;
    let created = ziti.creates("original", "left.json");
    let count = |kind: &str| created.iter().find(|(of, _)| of == kind).map(|(_, count)| *count);
    assert_eq!(count("Services"), Some(2), "{created:?}");
    assert_eq!(count("PostureChecks"), Some(6), "{created:?}");
    assert_eq!(count("Identities"), Some(2), "{created:?}");
    assert_eq!(count("ServicePolicies"), Some(2), "{created:?}");
    ziti.says("original", &["ops", "export", "-o", "original.json"]);
    drop(original);

    let fresh = Scene::start().await;
    fresh.put("original.json", &one.get("original.json"));
    let said = fresh.weft(0, &["apply", "original.json", "--yes"]).await;
    assert!(said.contains("enroll anew"), "{said}");
    let again = fresh.weft(0, &["apply", "original.json", "--yes"]).await;
    assert!(again.contains("nothing changes"), "{again}");
    // What the original's export lacks is all that differs from the network where it began.
    fresh.put("left.json", &one.get("left.json"));
    let differs = ["diff", "left.json", "--output", "json"];
    let differs = weft(fresh.place.folder(), &differs).await;
    let plan: Value = serde_json::from_slice(&differs.stdout).unwrap();
    let changes = plan["changes"].as_array().unwrap().iter();
    let mut differing: Vec<String> = changes
        .flat_map(|change| {
            let name = change["name"].as_str().unwrap().to_owned();
            let fields = change["fields"].as_array().unwrap().clone();
            fields
                .into_iter()
                .map(move |field| format!("{name} {}", field["field"].as_str().unwrap()))
        })
        .filter(|what| !what.starts_with("quickstart"))
        .collect();
    differing.sort();
    let lacking = [
        "laptop appData",
        "laptop defaultHostingCost",
        "paris cost",
        "plain maxIdleTimeMillis",
        "staff-web postureCheckRoles",
    ];
    assert_eq!(differing, lacking, "{plan:#}");
    for scene in [one, other, fresh] {
        scene.stop().await;
    }
}
