//! Finding Envoy: where the user says, on `PATH`, or where we install it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::pin::Pin;
use super::{PINNED, PROGRAM};

/// Variable with the path of Envoy, for those who cannot pass a flag.
pub const VARIABLE: &str = "KODIAK_ENVOY";

/// Variables that say where programs are. An empty variable counts as not set.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Value of [`VARIABLE`].
    pub envoy: Option<OsString>,
    pub path: Option<OsString>,
    pub xdg_cache_home: Option<OsString>,
    pub home: Option<OsString>,
}

impl Environment {
    pub fn of_this_process() -> Self {
        Self {
            envoy: env::var_os(VARIABLE),
            path: env::var_os("PATH"),
            xdg_cache_home: env::var_os("XDG_CACHE_HOME"),
            home: env::var_os("HOME"),
        }
    }
}

/// With one line for each place.
#[derive(Debug, thiserror::Error)]
#[error("Envoy not found; looked at:\n  {}\ninstall it with `kodiak dp install-envoy`", .0.join("\n  "))]
pub struct NotFound(pub Vec<String>);

/// The first that exists of: `explicit`, [`VARIABLE`], `PATH`, the cache. If one of the first two is given, it is the only
/// place: another Envoy than the configured one would surprise. [`super::Version`] checks whether it works. From the cache,
/// only the pinned program is returned, by its hash.
pub fn find(explicit: Option<&Path>, environment: &Environment) -> Result<PathBuf, NotFound> {
    find_pinned(explicit, environment, Pin::of_this_machine().as_ref())
}

fn find_pinned(explicit: Option<&Path>, environment: &Environment, pin: Option<&Pin>) -> Result<PathBuf, NotFound> {
    if let Some(program) = explicit {
        return named(program, "as asked for");
    }
    if let Some(program) = given(environment.envoy.as_deref()) {
        return named(Path::new(program), &format!("from {VARIABLE}"));
    }
    let mut looked_at = vec![format!("{VARIABLE}, which is not set")];
    let path = given(environment.path.as_deref());
    // An empty entry of PATH means the current folder, from which a proxy must not run by accident.
    let mut on_path = path.into_iter().flat_map(env::split_paths).filter(|folder| folder.is_absolute());
    if let Some(program) = on_path.find_map(|folder| program_in(&folder)) {
        return Ok(program);
    }
    looked_at.push(match path {
        Some(path) => format!("PATH, which is {}", path.display()),
        None => "PATH, which is not set".to_owned(),
    });
    match cache_folder(environment) {
        Some(folder) => match program_in(&folder) {
            Some(program) => match cached(&program, pin) {
                Ok(()) => return Ok(program),
                Err(reason) => looked_at.push(format!("{}, {reason}", program.display())),
            },
            None => looked_at.push(folder.join(PROGRAM).display().to_string()),
        },
        None => looked_at.push("the cache, but neither XDG_CACHE_HOME nor HOME says where it is".to_owned()),
    }
    Err(NotFound(looked_at))
}

/// Path at which `kodiak dp install-envoy` installs the pinned version; `None` when the environment has no cache folder.
pub fn cache_folder(environment: &Environment) -> Option<PathBuf> {
    let absolute = |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute(&environment.xdg_cache_home)
        .or_else(|| absolute(&environment.home).map(|home| home.join(".cache")))?;
    Some(cache.join("kodiak").join("envoy").join(PINNED.to_string()))
}

/// Checks that the program in the cache is the one that was installed there.
fn cached(program: &Path, pin: Option<&Pin>) -> Result<(), String> {
    let pin = pin.ok_or_else(|| format!("but Envoy {PINNED} is not packaged for this machine"))?;
    match pin.check(program) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(found)) => {
            Err(format!("which is not Envoy {PINNED}: its SHA-256 is {found}, not {}; remove it", pin.program))
        }
        Err(error) => Err(format!("which cannot be read: {error}")),
    }
}

fn named(program: &Path, how: &str) -> Result<PathBuf, NotFound> {
    let found = is_program(program).then(|| program.to_owned());
    found.ok_or_else(|| NotFound(vec![format!("{}, {how}, which is no program", program.display())]))
}

fn given(value: Option<&OsStr>) -> Option<&OsStr> {
    value.filter(|value| !value.is_empty())
}

fn program_in(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(PROGRAM)).filter(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use kodiak_crypto::fingerprint;

    use super::*;
    use crate::envoy::testing;

    /// A program at every place.
    struct Places {
        folder: tempfile::TempDir,
        environment: Environment,
        pin: Pin,
    }

    impl Places {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            let environment = Environment {
                envoy: Some(at("variable/envoy").into()),
                path: Some(env::join_paths([at("empty"), at("path")]).unwrap()),
                xdg_cache_home: Some(at("cache").into()),
                home: Some(at("home").into()),
            };
            let cached = cache_folder(&environment).unwrap().join("envoy");
            for program in [at("explicit/envoy"), at("variable/envoy"), at("path/envoy"), cached] {
                fs::create_dir_all(program.parent().unwrap()).unwrap();
                testing::script(&program, "");
            }
            let program = fingerprint(&fs::read(folder.path().join("cache/kodiak/envoy/1.40.0/envoy")).unwrap());
            Self { folder, environment, pin: Pin { wheel: String::new(), program } }
        }

        fn find(&self, explicit: Option<&Path>) -> Result<PathBuf, NotFound> {
            find_pinned(explicit, &self.environment, Some(&self.pin))
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
    }

    #[test]
    fn places_are_searched_in_order() {
        let mut places = Places::new();
        let explicit = places.at("explicit/envoy");
        assert_eq!(places.find(Some(&explicit)).unwrap(), explicit);
        assert_eq!(places.find(None).unwrap(), places.at("variable/envoy"));
        places.environment.envoy = Some(OsString::new());
        assert_eq!(places.find(None).unwrap(), places.at("path/envoy"));
        places.environment.path = None;
        assert_eq!(places.find(None).unwrap(), places.at("cache/kodiak/envoy/1.40.0/envoy"));
    }

    #[test]
    fn configured_path_has_no_fallback() {
        let mut places = Places::new();
        let missing = places.at("explicit/missing");
        let error = places.find(Some(&missing)).unwrap_err();
        assert_eq!(error.0, [format!("{}, as asked for, which is no program", missing.display())]);
        places.environment.envoy = Some(missing.clone().into());
        let error = places.find(None).unwrap_err();
        assert_eq!(error.0, [format!("{}, from KODIAK_ENVOY, which is no program", missing.display())]);
    }

    #[test]
    fn only_executable_files_are_programs() {
        let mut places = Places::new();
        places.environment.envoy = None;
        let program = places.at("path/envoy");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir_all(places.at("empty/envoy")).unwrap();
        assert_eq!(places.find(None).unwrap(), places.at("cache/kodiak/envoy/1.40.0/envoy"));
    }

    #[test]
    fn changed_program_in_the_cache_is_never_returned() {
        let mut places = Places::new();
        (places.environment.envoy, places.environment.path) = (None, None);
        let cached = places.at("cache/kodiak/envoy/1.40.0/envoy");
        assert_eq!(places.find(None).unwrap(), cached);
        let unknown = find_pinned(None, &places.environment, None).unwrap_err();
        assert!(unknown.to_string().contains("but Envoy 1.40.0 is not packaged for this machine"), "{unknown}");

        testing::script(&cached, "echo changed");
        let error = places.find(None).unwrap_err();
        let found = fingerprint(&fs::read(&cached).unwrap());
        let expected = format!(
            "{}, which is not Envoy 1.40.0: its SHA-256 is {found}, not {}; remove it",
            cached.display(),
            places.pin.program
        );
        assert_eq!(error.0.last(), Some(&expected));
    }

    #[test]
    fn error_names_all_places_and_the_install_command() {
        let environment = Environment {
            path: Some("/no/where:/no/there".into()),
            home: Some("/no/home".into()),
            ..Environment::default()
        };
        let expected = "\
Envoy not found; looked at:
  KODIAK_ENVOY, which is not set
  PATH, which is /no/where:/no/there
  /no/home/.cache/kodiak/envoy/1.40.0/envoy
install it with `kodiak dp install-envoy`";
        assert_eq!(find(None, &environment).unwrap_err().to_string(), expected);
        let nothing = find(None, &Environment::default()).unwrap_err();
        assert_eq!(nothing.0.len(), 3, "{nothing}");
    }

    #[test]
    fn relative_cache_folder_is_ignored() {
        let environment = Environment { xdg_cache_home: Some("cache".into()), ..Environment::default() };
        assert_eq!(cache_folder(&environment), None);
    }
}
