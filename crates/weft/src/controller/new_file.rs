//! `weft controller config`: the certificates and the commented file of a new controller, and
//! `weft controller renew`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weft_config::{ClusterTemplate, ControllerConfig, ControllerTemplate, Loaded};
use weft_identity::{Authority, Certificate, SealKey, read_file, write_for_owner};

use super::join::Joined;
use crate::cli::ControllerConfigArgs;
use crate::compose::etcd::new_network_key;
use crate::compose::session_key;
use crate::failure::{Failure, Result};
use crate::home::{Home, text};
use crate::place::{ListenAddress, check_host, is_own};
use crate::{output, pki};

/// The option with hosts of the controller.
const OPTION: &str = "--address";

/// A controller that is to be created: its certificates and its file.
#[derive(Debug)]
pub(crate) struct NewController {
    /// The one address for clients and routers.
    pub(crate) address: ListenAddress,
    /// Further hosts that the certificate names.
    pub(crate) other_hosts: Vec<String>,
    /// Hosts of the controller that a router on its machine has, too.
    pub(crate) shared: Vec<String>,
    /// Name of the network in certificates.
    pub(crate) trust_domain: String,
    /// Its id.
    name: String,
    /// What it shares with other controllers, if it is one of several.
    cluster: Option<NewCluster>,
}

/// What a controller shares with others.
#[derive(Debug)]
struct NewCluster {
    etcd: Vec<String>,
    prefix: String,
    authorities: Option<String>,
    /// The folder of another controller of the network; none for the first one.
    other: Option<PathBuf>,
    /// User and password at etcd.
    login: Option<(String, String)>,
    /// Whether the folder has the key of the network's root.
    has_root: bool,
}

impl NewController {
    /// A controller of a network with a new name.
    pub(crate) fn new(address: ListenAddress) -> Self {
        let trust_domain = format!("weft-{:08x}", rand::random::<u32>());
        Self {
            address,
            other_hosts: Vec::new(),
            shared: Vec::new(),
            trust_domain,
            name: pki::FIRST.to_owned(),
            cluster: None,
        }
    }

    /// A controller that was let in by another one.
    pub(super) fn joined(
        address: ListenAddress,
        hosts: &[String],
        name: &str,
        joined: &Joined,
        home: &Home,
    ) -> Self {
        let welcome = joined.welcome();
        let has_login = !welcome.etcd_user.is_empty() && !joined.has_dollar();
        let login = has_login.then(|| (welcome.etcd_user.clone(), welcome.etcd_password.clone()));
        Self {
            name: name.to_owned(),
            other_hosts: hosts.iter().skip(1).cloned().collect(),
            trust_domain: welcome.trust_domain.clone(),
            cluster: Some(NewCluster {
                etcd: welcome.etcd.clone(),
                prefix: welcome.prefix.clone(),
                authorities: joined.etcd_authorities(home),
                other: None,
                login,
                has_root: false,
            }),
            ..Self::new(address)
        }
    }

    /// Makes the controller's key and certificate below a signer.
    pub(super) fn make_certificate(&self, home: &Home, signer: &Authority) -> Result<()> {
        let names = (self.trust_domain.as_str(), self.name.as_str(), &*self.hosts());
        pki::make_leaf(home, signer, names, SystemTime::now())
    }

    /// All hosts, the one for clients and routers first.
    fn hosts(&self) -> Vec<&str> {
        let first = std::iter::once(self.address.advertise.host.as_str());
        first.chain(self.other_hosts.iter().map(String::as_str)).collect()
    }

    /// Makes it the first of several controllers, which share the network in the etcd at these URLs.
    pub(crate) fn first_of_several(self, etcd: Vec<String>, authorities: Option<String>) -> Self {
        let cluster = NewCluster {
            etcd,
            prefix: "/weft/".to_owned(),
            authorities,
            other: None,
            login: None,
            has_root: true,
        };
        Self { cluster: Some(cluster), ..self }
    }

    /// A further controller of the network of this one, which is in the folder `home`.
    pub(crate) fn further(&self, home: &Path, name: String, address: ListenAddress) -> Self {
        let cluster = self.cluster.as_ref().map(|cluster| NewCluster {
            etcd: cluster.etcd.clone(),
            prefix: cluster.prefix.clone(),
            authorities: cluster.authorities.clone(),
            other: Some(home.to_owned()),
            login: cluster.login.clone(),
            has_root: false,
        });
        Self {
            address,
            other_hosts: Vec::new(),
            shared: self.shared.clone(),
            trust_domain: self.trust_domain.clone(),
            name,
            cluster,
        }
    }

    /// Makes the authorities, and the controller's key and certificate.
    pub(crate) fn make_certificates(&self, home: &Home) -> Result<()> {
        home.make_pki_folder()?;
        let hosts = self.hosts();
        let Some(cluster) = &self.cluster else {
            return pki::make(home, &self.trust_domain, &self.name, &hosts);
        };
        let Some(other) = cluster.other.as_ref().map(|home| home.join("pki")) else {
            pki::make(home, &self.trust_domain, &self.name, &hosts)?;
            let key = new_network_key();
            return Ok(write_for_owner(&home.pki(pki::NETWORK_KEY), key.as_bytes())?);
        };
        pki::make_member(home, &other, &self.trust_domain, &self.name, &hosts)?;
        // The other controller makes it at its first start.
        SealKey::load_or_make(&other.join(session_key::NAME))?;
        for key in [pki::NETWORK_KEY, session_key::NAME] {
            write_for_owner(&home.pki(key), &read_file(&other.join(key))?)?;
        }
        Ok(())
    }

    /// Writes the controller's file. Certificates and files of routers come before, because with this
    /// file the network exists.
    pub(crate) fn write_file(&self, home: &Home) -> Result<()> {
        Ok(write_for_owner(&home.controller_file(), self.text(home).as_bytes())?)
    }

    fn text(&self, home: &Home) -> String {
        let path = |name: &str| text(&home.pki(name));
        let shared: Vec<&str> = self.shared.iter().map(String::as_str).collect();
        let network_key = path(pki::NETWORK_KEY);
        let root = [path(pki::ROOT_CERT), path(pki::ROOT_KEY)];
        ControllerTemplate {
            db: &text(&home.database()),
            cert: &path(pki::CONTROLLER_CERT),
            server_cert: &path(pki::CONTROLLER_CERT),
            key: &path(pki::CONTROLLER_KEY),
            ca: &path(pki::ROOT_CERT),
            signing_cert: &path(pki::SIGNER_CERT),
            signing_key: &path(pki::SIGNER_KEY),
            trust_domain: &self.trust_domain,
            ctrl_bind: self.address.bind.clone(),
            ctrl_advertise: self.address.advertise.clone(),
            api_bind: self.address.bind.clone(),
            api_advertise: self.address.advertise.clone(),
            shared_names: &shared,
            cluster: self.cluster.as_ref().map(|cluster| ClusterTemplate {
                etcd: &cluster.etcd,
                prefix: &cluster.prefix,
                key: &network_key,
                ca: cluster.authorities.as_deref(),
                root: cluster.has_root.then_some([&root[0], &root[1]]),
                login: cluster.login.as_ref().map(|(user, password)| [user.as_str(), password]),
            }),
        }
        .to_text()
    }
}

/// Makes the certificates and the file of a controller in a folder, and says what to do next.
pub(super) fn write(args: &ControllerConfigArgs) -> Result<()> {
    let new = planned(args)?;
    let home = Home::open(Some(&args.home))?;
    if let Some(there) = home.existing() {
        return Err(Failure::usage(format!(
            "{} exists: nothing was written. Name an empty folder with --home; `weft controller renew` \
             renews the certificate of an existing controller",
            there.display()
        )));
    }
    new.make_certificates(&home).and_then(|()| new.write_file(&home))?;
    next_steps(&home, &new).lines().for_each(output::line);
    Ok(())
}

/// Renews the controller's certificate in a folder that has one, with these hosts as further names.
pub(super) fn renew(home: &Path, addresses: &[String]) -> Result<()> {
    let hosts = hosts(addresses)?;
    if !home.join("pki").join(pki::CONTROLLER_CERT).exists() {
        return Err(Failure::usage(format!(
            "{} has no pki/{}: name the folder of `weft controller config` with --home",
            home.display(),
            pki::CONTROLLER_CERT
        )));
    }
    let home = Home::open(Some(home))?;
    pki::renew(&home, &hosts, std::time::SystemTime::now())?;
    output::line(format!(
        "{} is new, for a year; a controller that runs uses it within 1 s",
        home.pki(pki::CONTROLLER_CERT).display()
    ));
    if !hosts.is_empty() {
        output::line(format!(
            "it also names {}. Clients and routers are told the addresses in {}: ctrl.options.advertiseAddress, \
             edge.api.address and web[].bindPoints[].address",
            hosts.join(", "),
            home.controller_file().display()
        ));
    }
    Ok(())
}

/// The hosts of the option, each once.
pub(super) fn hosts(addresses: &[String]) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for host in addresses {
        let host = check_host(OPTION, host)?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

fn planned(args: &ControllerConfigArgs) -> Result<NewController> {
    let hosts = hosts(&args.address)?;
    let Some(first) = hosts.first() else {
        return Err(Failure::usage("name the controller's host with --address"));
    };
    let address = ListenAddress::of(OPTION, first, args.port)?;
    let shared = hosts.iter().filter(|host| args.router_beside && !is_own(host)).cloned();
    let shared = shared.collect();
    let other_hosts = hosts.into_iter().skip(1).collect();
    let new = NewController { shared, other_hosts, ..NewController::new(address) };
    match &args.member_of {
        Some(other) => new.member_of(other, args.name.as_deref()),
        None if args.etcd.is_empty() => Ok(new),
        None => {
            let authorities = args.etcd_ca.as_deref().map(absolute).transpose()?;
            let name = args.name.clone().unwrap_or_else(|| new.name.clone());
            let new = NewController { name, ..new };
            Ok(new.first_of_several(args.etcd.clone(), authorities))
        }
    }
}

impl NewController {
    /// Makes it a member of the network of another controller, in whose folder everything lies that they share.
    pub(crate) fn member_of(self, other: &Path, name: Option<&str>) -> Result<Self> {
        let file = other.join("controller.yaml");
        let Loaded { config, .. } = ControllerConfig::from_path(&file)?;
        let Some(cluster) = &config.storage.cluster else {
            return Err(Failure::usage(format!(
                "{} has no section `cluster`: the first controller of several is made with --etcd",
                file.display()
            )));
        };
        let name = name.ok_or_else(|| {
            Failure::usage("name the controller with --name; each of a network has another name")
        })?;
        let certificate = read_file(&other.join("pki").join(pki::CONTROLLER_CERT))?;
        let taken = Certificate::from_pem(&certificate)?.into_iter().next();
        if taken.is_some_and(|taken| taken.common_name() == Some(name)) {
            return Err(Failure::usage(format!(
                "--name {name}: the controller in {} has this name; each of a network has another one",
                other.display()
            )));
        }
        let scheme = if cluster.has_tls { "https" } else { "http" };
        let authorities = cluster.authorities.as_deref().map(absolute).transpose()?;
        Ok(Self {
            name: name.to_owned(),
            trust_domain: config.trust_domain.clone().unwrap_or(self.trust_domain),
            cluster: Some(NewCluster {
                etcd: cluster.members.iter().map(|it| format!("{scheme}://{it}")).collect(),
                prefix: cluster.prefix.clone(),
                authorities,
                other: Some(other.to_owned()),
                // It may come from a variable of the environment.
                login: None,
                has_root: false,
            }),
            ..self
        })
    }
}

pub(super) fn absolute(path: &Path) -> Result<String> {
    let path = std::path::absolute(path);
    let path = path.map_err(|error| Failure::new(format!("the current folder: {error}")))?;
    Ok(text(&path))
}

fn next_steps(home: &Home, new: &NewController) -> String {
    let file = home.controller_file();
    let (file, root) = (file.display(), home.pki(pki::ROOT_CERT));
    if new.cluster.as_ref().is_some_and(|cluster| cluster.other.is_some()) {
        return format!(
            "wrote {file}, and keys and certificates in {pki}\n\
             Move the folder to its machine, and change the paths in the file there.\n\
             Next:\n  \
             weft controller run {file}    takes the network from etcd",
            pki = home.root().join("pki").display(),
        );
    }
    format!(
        "wrote {file}, and keys and certificates in {pki}\n\
         Keep {key} in a safe place: only new signers need it.\n\
         Next:\n  \
         weft controller init {file}    asks for the administrator's password\n  \
         weft controller run {file}\n  \
         weft login https://{address} --username admin --ca {root}    in another terminal",
        pki = home.root().join("pki").display(),
        key = home.pki(pki::ROOT_KEY).display(),
        address = new.address.advertise,
        root = root.display(),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weft_config::ControllerConfig;
    use weft_identity::Certificate;

    use super::*;
    use crate::check::{self, Purpose};

    fn args(home: &Path, address: &[&str]) -> ControllerConfigArgs {
        ControllerConfigArgs {
            home: home.to_owned(),
            address: address.iter().map(|host| (*host).to_owned()).collect(),
            port: 1280,
            router_beside: false,
            etcd: Vec::new(),
            etcd_ca: None,
            member_of: None,
            name: None,
        }
    }

    fn leaf(home: &Path) -> Certificate {
        let pem = fs::read(home.join("pki").join(pki::CONTROLLER_CERT)).unwrap();
        Certificate::from_pem(&pem).unwrap().remove(0)
    }

    #[test]
    fn the_file_passes_the_check_and_the_certificate_names_every_address() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ctrl");
        let mut args = args(&home, &["CTRL.example", "192.0.2.7"]);
        args.router_beside = true;
        write(&args).unwrap();
        let file = home.join("controller.yaml");
        let mut examined = ControllerConfig::examine_path(&file).unwrap();
        check::controller(&mut examined, Purpose::Advice);
        assert_eq!(examined.problems, []);
        assert!(fs::read_to_string(&file).unwrap().contains("sharedNames: "));
        let leaf = leaf(&home);
        for host in ["ctrl.example", "192.0.2.7", "localhost"] {
            assert!(leaf.covers_host(host), "{host}");
        }
        assert_eq!(leaf.spiffe_uris().count(), 1);
    }

    #[test]
    fn a_further_controller_shares_the_root_and_the_keys_of_the_network_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [alone, one, two, three] =
            ["alone", "one", "two", "three"].map(|name| folder.path().join(name));
        write(&args(&alone, &["alone.example"])).unwrap();
        let mut first = args(&one, &["one.example"]);
        first.etcd = vec!["https://etcd1:2379".into(), "https://etcd2:2379".into()];
        first.etcd_ca = Some(folder.path().join("etcd-ca.pem"));
        write(&first).unwrap();
        let joins = |home: &Path, other: &Path, name: Option<&str>| {
            let (member_of, name) = (Some(other.to_owned()), name.map(str::to_owned));
            write(&ControllerConfigArgs { member_of, name, ..args(home, &["two.example"]) })
        };
        let error = joins(&two, &alone, Some("two")).unwrap_err().to_string();
        assert!(error.contains("has no section `cluster`"), "{error}");
        let error = joins(&two, &one, None).unwrap_err().to_string();
        assert!(error.contains("--name"), "{error}");
        let error = joins(&two, &one, Some("controller")).unwrap_err().to_string();
        assert!(error.contains("has this name"), "{error}");
        joins(&two, &one, Some("two")).unwrap();
        let read = |home: &Path, name: &str| fs::read(home.join("pki").join(name)).unwrap();
        for shared in [pki::ROOT_CERT, pki::NETWORK_KEY, session_key::NAME] {
            assert_eq!(read(&one, shared), read(&two, shared), "{shared}");
        }
        for own in [pki::SIGNER_CERT, pki::SIGNER_KEY, pki::CONTROLLER_CERT, pki::CONTROLLER_KEY] {
            assert_ne!(read(&one, own), read(&two, own), "{own}");
        }
        assert!(!two.join("pki").join(pki::ROOT_KEY).exists());
        let loaded = |home: &Path| {
            let file = home.join("controller.yaml");
            ControllerConfig::from_path(&file).unwrap().config
        };
        let (first, second) = (loaded(&one), loaded(&two));
        assert_eq!(first.trust_domain, second.trust_domain);
        let shared = |config: &ControllerConfig| {
            let cluster = config.storage.cluster.clone().unwrap();
            (cluster.members, cluster.prefix, cluster.authorities)
        };
        assert_eq!(shared(&first), shared(&second));
        assert!(leaf(&two).covers_host("two.example") && !leaf(&two).covers_host("one.example"));
        // The files that the section names are looked at.
        let said = |home: &Path| {
            let mut examined =
                ControllerConfig::examine_path(&home.join("controller.yaml")).unwrap();
            check::controller(&mut examined, Purpose::Advice);
            let texts = examined.problems.iter().map(|it| it.text().to_owned());
            texts.collect::<Vec<_>>().join("\n")
        };
        assert!(said(&two).contains("etcd-ca.pem"), "{}", said(&two));
        fs::copy(one.join("pki").join(pki::ROOT_CERT), folder.path().join("etcd-ca.pem")).unwrap();
        assert_eq!((said(&one), said(&two)), (String::new(), String::new()));
        fs::write(two.join("pki").join(pki::NETWORK_KEY), "1 abc").unwrap();
        assert!(said(&two).contains("network.key, line 1"), "{}", said(&two));
        // The key of the root may be in a safe place.
        fs::remove_file(one.join("pki").join(pki::ROOT_KEY)).unwrap();
        let error = joins(&three, &one, Some("three")).unwrap_err().to_string();
        assert!(error.contains(pki::ROOT_KEY), "{error}");
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ctrl");
        let args = args(&home, &["ctrl.example"]);
        write(&args).unwrap();
        let before = leaf(&home);
        let error = write(&args).unwrap_err().to_string();
        assert!(error.contains("controller.yaml exists"), "{error}");
        // The certificates of a lost file are not replaced either.
        fs::remove_file(home.join("controller.yaml")).unwrap();
        let error = write(&args).unwrap_err().to_string();
        assert!(error.contains("pki exists"), "{error}");
        assert_eq!(leaf(&home).fingerprint(), before.fingerprint());
    }

    #[test]
    fn a_renewed_certificate_has_the_same_names() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ctrl");
        assert!(renew(&home, &[]).unwrap_err().to_string().contains("--home"));
        assert!(!home.exists());
        write(&args(&home, &["ctrl.example"])).unwrap();
        let before = leaf(&home);
        renew(&home, &[]).unwrap();
        let after = leaf(&home);
        assert_ne!(after.fingerprint(), before.fingerprint());
        assert_eq!(after.sans(), before.sans());
        // A controller that moves gets further names, and keeps the former ones.
        let more = ["NEW.example", "192.0.2.9", "ctrl.example"].map(str::to_owned);
        assert!(renew(&home, &["a b".to_owned()]).unwrap_err().to_string().contains("--address"));
        renew(&home, &more).unwrap();
        let moved = leaf(&home);
        assert_eq!(moved.sans().len(), before.sans().len() + 2);
        for host in ["ctrl.example", "new.example", "192.0.2.9", "localhost"] {
            assert!(moved.covers_host(host), "{host}");
        }
    }

    #[test]
    fn hosts_that_are_none_are_refused_before_a_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ctrl");
        for host in ["0.0.0.0", "a b", "https://ctrl.example"] {
            let error = write(&args(&home, &[host])).unwrap_err().to_string();
            assert!(error.contains("--address"), "{error}");
        }
        assert!(!home.exists());
    }

    #[cfg(unix)]
    #[test]
    fn files_belong_to_the_owner_of_the_folder_whoever_makes_and_renews_them() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ctrl");
        fs::create_dir(&home).unwrap();
        // Only root may give files away; for others all owners are the same.
        let _ = chown(&home, Some(4321), Some(4322));
        let owner = |path: &Path| fs::metadata(path).map(|it| (it.uid(), it.gid())).unwrap();
        write(&args(&home, &["ctrl.example"])).unwrap();
        let pki = home.join("pki");
        let mut made = vec![pki.clone(), home.join("controller.yaml"), home.join("lock")];
        made.extend(fs::read_dir(&pki).unwrap().map(|entry| entry.unwrap().path()));
        for path in made {
            assert_eq!(owner(&path), owner(&home), "{}", path.display());
        }
        let certificate = pki.join(pki::CONTROLLER_CERT);
        let _ = chown(&certificate, Some(4323), None);
        fs::set_permissions(&certificate, fs::Permissions::from_mode(0o644)).unwrap();
        let before = fs::metadata(&certificate).unwrap();
        renew(&home, &[]).unwrap();
        let after = fs::metadata(&certificate).unwrap();
        assert_eq!((after.uid(), after.mode()), (before.uid(), before.mode()));
    }
}
