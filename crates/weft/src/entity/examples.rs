//! Examples for the help of commands.

use weft_contract::body::{FieldType, Verb};
use weft_contract::kind::Kind;

use super::{flags, name};

/// Examples for `weft VERB`.
pub(super) fn of_verb(verb: &str) -> &'static str {
    match verb {
        "create" => {
            "Examples:\n  weft create service web --role-attributes intranet\n  \
             weft create identity laptop -o laptop.jwt\n  \
             weft create service-policy staff --type Dial --identity-roles '#staff' \\\n      \
             --service-roles '#intranet'\n\n\
             Names stand for ids wherever an id is wanted. `weft create KIND --help` tells the rest."
        }
        "list" => {
            "Examples:\n  weft list services\n  \
             weft list identities 'anyOf(roleAttributes) = \"staff\"' --sort 'createdAt desc'\n  \
             weft list services --of identity laptop --policy-type dial\n  \
             weft list edge-routers --columns name,isOnline,versionInfo.version\n  \
             weft list configs --output yaml"
        }
        "show" => "Example:\n  weft show service web --output yaml",
        "update" => {
            "Examples:\n  weft update service web --role-attributes intranet,prod\n  \
             weft update identity laptop --role-attributes staff,admins\n  \
             weft update config web-host --data @host.json"
        }
        "delete" => {
            "Examples:\n  weft delete service web\n  \
             weft delete identities --where 'name contains \"test-\"'"
        }
        _ => "",
    }
}

/// Examples for `weft list KIND`.
pub(super) fn of_list(kind: &Kind) -> String {
    let plural = kind.plural;
    let mut text = format!("Examples:\n  weft list {plural}\n");
    match kind.name {
        "link" => {
            let more = "  weft list links 'down = true'\n  \
                        weft list links 'sourceRouter.name = \"paris\" or destRouter.name = \"paris\"'\n  \
                        weft list links --sort 'cost desc' --columns id,from,to,cost";
            return text + more;
        }
        "circuit" => {
            let more = "  weft list circuits 'service.name = \"web\"'\n  \
                        weft list circuits 'anyOf(links) = \"ID\"'\n  \
                        weft list circuits --sort 'createdAt desc' --limit 20";
            return text + more;
        }
        _ => {}
    }
    let member = |name: &str| kind.fields.iter().any(|field| field.name == name);
    if member("name") {
        text.push_str(&format!("  weft list {plural} 'name contains \"a\"' --limit 20\n"));
    }
    if kind.role_attributes.is_some() {
        text.push_str(&format!("  weft list {plural} 'anyOf(roleAttributes) = \"public\"'\n"));
    }
    text.push_str(&format!(
        "  weft list {plural} --sort 'createdAt desc' --columns id,createdAt --output json"
    ));
    text
}

/// Examples for `weft update KIND`.
pub(super) fn of_update(kind: &Kind) -> &'static str {
    match kind.name {
        "link" => {
            "A change counts until the controller or one of the routers restarts. Circuits over the \
             link go\nanother way, if there is one. The static cost is a whole number; what a link \
             costs is never\nbelow 0.\n\nExamples:\n  \
             weft update link ID --static-cost 20\n  weft update link ID --down\n  \
             weft update link ID --down=false"
        }
        _ => "Only members that are given change. A list is replaced as a whole.",
    }
}

/// Examples for `weft delete KIND`.
pub(super) fn of_delete(kind: &Kind) -> String {
    let follows = match kind.name {
        "link" => {
            "Both routers close it; they usually make another at once. To keep it out of use:\n  \
             weft update link ID --down\n\n"
        }
        "circuit" => "Both ends see the connection end.\n\n",
        _ => "",
    };
    let (called, which) = if name::is_named(kind) { ("name", "NAME") } else { ("id", "ID") };
    format!(
        "{follows}Nothing is deleted unless every {called} is known. Entities that are given by their \
         {called} are deleted without a question; --where asks, unless --yes is given. Example:\n  \
         weft delete {} {which}",
        kind.name
    )
}

/// Examples for `weft create KIND`.
pub(super) fn of_create(kind: &'static Kind) -> String {
    let known = match kind.name {
        "authenticator" => {
            "weft create authenticator --identity alice --method updb --username alice \\\n      \
             --password 'a long secret'"
        }
        "auth-policy" => {
            "weft create auth-policy strict --primary-updb-allowed \\\n      \
             --primary-updb-min-password-length 12 --secondary-require-totp\n  \
             weft create auth-policy machines --primary-cert-allowed\n\n\
             What no flag allows is not allowed."
        }
        "ca" => {
            "weft create ca partner --cert-pem @partner.pem --identity-roles partner \\\n      \
             --is-auth-enabled --is-ott-ca-enrollment-enabled \\\n      \
             --is-auto-ca-enrollment-enabled=false\n  \
             weft verify ca partner --ca-cert partner.pem --ca-key partner.key\n\n\
             The certificate may also be given as it is: --cert-pem \"$(cat partner.pem)\""
        }
        "config" => {
            "weft create config web-host --config-type host.v1 \\\n      \
             --data '{\"protocol\":\"tcp\",\"address\":\"127.0.0.1\",\"port\":8080}'"
        }
        "config-type" => "weft create config-type printer.v1 --schema '{\"type\":\"object\"}'",
        "controller-setting" => {
            "weft create controller-setting --controller global \\\n      \
             --oidc-redirect-uris https://app.example/callback"
        }
        "edge-router" => {
            "weft create edge-router paris --role-attributes public --is-tunneler-enabled \\\n      \
             -o paris.jwt\n  weft router enroll router.yml --jwt paris.jwt"
        }
        "edge-router-policy" => {
            "weft create edge-router-policy everybody \\\n      \
             --identity-roles '#all' --edge-router-roles '#public'"
        }
        "enrollment" => {
            "weft create enrollment --identity laptop --method ott --expires-at 24h -o laptop.jwt"
        }
        "external-jwt-signer" => {
            "weft create external-jwt-signer idp --issuer https://idp.example --audience weft \\\n      \
             --cert-pem @idp.pem --enabled"
        }
        "identity" => {
            "weft create identity laptop --role-attributes staff,admins -o laptop.jwt\n  \
             weft enroll laptop.jwt -o laptop.json"
        }
        "posture-check" => {
            "weft create posture-check linux --type-id OS \\\n      \
             --operating-systems '[{\"type\":\"Linux\",\"versions\":[\">=5.0.0\"]}]'"
        }
        "service" => "weft create service web --configs web-host --role-attributes intranet",
        "service-edge-router-policy" => {
            "weft create service-edge-router-policy everywhere \\\n      \
             --service-roles '#all' --edge-router-roles '#all'"
        }
        "service-policy" => {
            "weft create service-policy staff-dials --type Dial \\\n      \
             --identity-roles '#staff' --service-roles '@web'\n  \
             weft create service-policy router-hosts --type Bind \\\n      \
             --identity-roles '@paris' --service-roles '@web'"
        }
        "terminator" => {
            "weft create terminator --service web --router paris --binding transport \\\n      \
             --address tcp:127.0.0.1:8080"
        }
        _ => return format!("Example:\n  {}", from_table(kind)),
    };
    format!("Examples:\n  {known}")
}

/// The required flags of a kind, with sample values.
fn from_table(kind: &'static Kind) -> String {
    let mut text = format!("weft create {}", kind.name);
    for (flag, shape) in flags::required(kind, Verb::Create) {
        let word = match shape {
            FieldType::Choice([first, ..]) => first,
            FieldType::Bool => "true",
            FieldType::Integer { .. } => "1",
            _ => "...",
        };
        match flag {
            Some(flag) => text.push_str(&format!(" --{flag} {word}")),
            None => text.push_str(" NAME"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use weft_contract::Method;
    use weft_contract::resource::KINDS;

    use super::super::operations::on_one;
    use super::*;
    use crate::cli;

    /// Splits a line into words as a shell does, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let (mut quoted, mut begun) = (false, false);
        for character in line.replace("\\\n", " ").chars() {
            match character {
                '\'' => (quoted, begun) = (!quoted, true),
                ' ' if !quoted => {
                    if begun {
                        words.push(String::new());
                    }
                    begun = false;
                }
                other => {
                    begun = true;
                    if let Some(word) = words.last_mut() {
                        word.push(other);
                    }
                }
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    fn check(text: &str) {
        let text = text.replace("\\\n", " ");
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("weft ")) {
            let line = line.replace('@', "=");
            let done = cli::command().try_get_matches_from(words(&line));
            if let Err(error) = done {
                panic!("{line}\n{error}");
            }
        }
    }

    #[test]
    fn what_has_no_name_is_called_by_its_id() {
        let help = |words: &[&str]| {
            let error = cli::command().try_get_matches_from(words).unwrap_err();
            error.to_string()
        };
        for (kind, follows) in [("link", "--down"), ("circuit", "see the connection end")] {
            let help = help(&["weft", "delete", kind, "--help"]);
            assert!(help.contains(&format!("weft delete {kind} ID")), "{help}");
            assert!(help.contains(&format!("Id of the {kind}")), "{help}");
            assert!(help.contains(follows) && !help.contains("NAME"), "{help}");
        }
        let help = help(&["weft", "delete", "service", "--help"]);
        assert!(help.contains("Name or id of the service"), "{help}");
    }

    #[test]
    fn examples_are_commands() {
        for verb in ["create", "list", "show", "delete"] {
            check(of_verb(verb));
        }
        for kind in KINDS {
            if kind.list().is_some() {
                check(&of_list(kind));
            }
            check(of_update(kind));
            if on_one(kind, Method::Delete).is_some() {
                check(&of_delete(kind));
            }
            let create = of_create(kind);
            if kind.create().is_some() && !create.contains(" ...") {
                check(&create);
            }
        }
    }
}
