//! A controller whose administrator has lost the password, and files that root makes for a service.

use std::path::Path;

use crate::program::{Program, text, weft_in};
use crate::wait::PATIENCE;

const FILE: &str = "ctrl/controller.yaml";

async fn run(folder: &Path, password: Option<&str>, args: &[&str]) -> (i32, String) {
    let password = password.map(|text| ("WEFT_NEW_PASSWORD", text.to_owned()));
    let done = weft_in(folder, password.as_slice(), args).await;
    (done.status.code().unwrap(), text(&done))
}

/// Everything in the controller's folder belongs to the owner of the folder. The folder belongs to
/// another user if root runs the test.
#[cfg(unix)]
fn belongs_to_owner(home: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    for folder in [home.to_owned(), home.join("pki")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(owner(&path), owner(home), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_controller_gets_a_new_password_and_tells_of_it() {
    let place = tempfile::tempdir().unwrap();
    let (folder, home) = (place.path(), place.path().join("ctrl"));
    std::fs::create_dir(&home).unwrap();
    #[cfg(unix)]
    let _ = std::os::unix::fs::chown(&home, Some(4321), Some(4322));
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    drop(socket);
    let config =
        ["controller", "config", "--home", "ctrl", "--address", "localhost", "--port", &port];
    assert_eq!(run(folder, None, &config).await.0, 0);

    let set = ["controller", "password", FILE, "--username", "admin"];
    let (status, said) = run(folder, Some("another-secret"), &set).await;
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("there is no database at"), "{said}");
    assert!(!home.join("controller.db").exists());
    let init = ["controller", "init", FILE, "--password", "first-secret"];
    let (status, said) = run(folder, None, &init).await;
    assert_eq!(status, 0, "{said}");

    let (status, said) = run(folder, None, &set).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("WEFT_NEW_PASSWORD"), "{said}");
    let other = ["controller", "password", FILE, "--username", "nobody"];
    let (status, said) = run(folder, Some("another-secret"), &other).await;
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("administrators log in as: admin"), "{said}");
    let (status, said) = run(folder, Some("abc"), &set).await;
    assert_eq!(status, 5, "{said}");
    let (status, said) = run(folder, Some("another-secret"), &set).await;
    assert_eq!(status, 0, "{said}");
    #[cfg(unix)]
    belongs_to_owner(&home);

    let mut controller =
        Program::start(&folder.join("controller.log"), &["controller", "run", FILE]);
    controller.says("controller runs", PATIENCE).await;
    let said = controller.said();
    assert!(said.contains("was set by `weft controller password`"), "{said}");
    assert!(said.contains("admin of Default Admin") && !said.contains("another-secret"), "{said}");
    let (status, said) = run(folder, Some("third-secret"), &set).await;
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("in use by another process") && said.contains("weft password"), "{said}");
    let login = |password| {
        let url = format!("localhost:{port}");
        async move {
            let args = ["login", &url, "--username", "admin", "--password", password, "--yes"];
            run(folder, None, &args).await
        }
    };
    assert_ne!(login("first-secret").await.0, 0);
    let (status, said) = login("another-secret").await;
    assert_eq!(status, 0, "{said}");
    assert!(controller.stop().await.success());
}
