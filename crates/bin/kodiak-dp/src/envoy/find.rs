//! Where Envoy is: where the user says, on `PATH`, or where we install it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{PINNED, PROGRAM};

/// Says where Envoy is, for those who cannot pass a flag.
pub const VARIABLE: &str = "KODIAK_ENVOY";

/// What the environment says about where programs are. An empty variable is one that is not set.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Of [`VARIABLE`].
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
#[error("Envoy is not there; looked at:\n  {}\nget it with `kodiak dp install-envoy`", .0.join("\n  "))]
pub struct NotFound(pub Vec<String>);

/// The first there is of: `explicit`, [`VARIABLE`], `PATH`, the cache. Where one of the first two is given, it is the only
/// place: to take another Envoy than the one that was named would surprise. Whether it works, [`super::Version`] tells.
pub fn find(explicit: Option<&Path>, environment: &Environment) -> Result<PathBuf, NotFound> {
    if let Some(program) = explicit {
        return named(program, "as asked for");
    }
    if let Some(program) = given(environment.envoy.as_deref()) {
        return named(Path::new(program), &format!("from {VARIABLE}"));
    }
    let mut looked_at = vec![format!("{VARIABLE}, which is not set")];
    let path = given(environment.path.as_deref());
    // An empty entry of PATH means the current folder, from which nobody wants to run a proxy by accident.
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
            Some(program) => return Ok(program),
            None => looked_at.push(folder.join(PROGRAM).display().to_string()),
        },
        None => looked_at.push("the cache, but neither XDG_CACHE_HOME nor HOME says where it is".to_owned()),
    }
    Err(NotFound(looked_at))
}

/// Where `kodiak dp install-envoy` puts the version that we pin; `None` when the environment has no place for it.
pub fn cache_folder(environment: &Environment) -> Option<PathBuf> {
    let absolute = |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute(&environment.xdg_cache_home)
        .or_else(|| absolute(&environment.home).map(|home| home.join(".cache")))?;
    Some(cache.join("kodiak").join("envoy").join(PINNED.to_string()))
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
    use super::*;
    use crate::envoy::testing;

    /// A program at every place.
    struct Places {
        folder: tempfile::TempDir,
        environment: Environment,
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
            Self { folder, environment }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
    }

    #[test]
    fn places_are_looked_at_in_order() {
        let mut places = Places::new();
        let explicit = places.at("explicit/envoy");
        assert_eq!(find(Some(&explicit), &places.environment).unwrap(), explicit);
        assert_eq!(find(None, &places.environment).unwrap(), places.at("variable/envoy"));
        places.environment.envoy = Some(OsString::new());
        assert_eq!(find(None, &places.environment).unwrap(), places.at("path/envoy"));
        places.environment.path = None;
        assert_eq!(find(None, &places.environment).unwrap(), places.at("cache/kodiak/envoy/1.40.0/envoy"));
    }

    #[test]
    fn what_was_named_is_not_replaced_by_another() {
        let mut places = Places::new();
        let missing = places.at("explicit/missing");
        let error = find(Some(&missing), &places.environment).unwrap_err();
        assert_eq!(error.0, [format!("{}, as asked for, which is no program", missing.display())]);
        places.environment.envoy = Some(missing.clone().into());
        let error = find(None, &places.environment).unwrap_err();
        assert_eq!(error.0, [format!("{}, from KODIAK_ENVOY, which is no program", missing.display())]);
    }

    #[test]
    fn files_that_cannot_run_and_folders_are_no_programs() {
        let mut places = Places::new();
        places.environment.envoy = None;
        let program = places.at("path/envoy");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir_all(places.at("empty/envoy")).unwrap();
        assert_eq!(find(None, &places.environment).unwrap(), places.at("cache/kodiak/envoy/1.40.0/envoy"));
    }

    #[test]
    fn the_error_names_all_places_and_the_way_out() {
        let environment = Environment {
            path: Some("/no/where:/no/there".into()),
            home: Some("/no/home".into()),
            ..Environment::default()
        };
        let expected = "\
Envoy is not there; looked at:
  KODIAK_ENVOY, which is not set
  PATH, which is /no/where:/no/there
  /no/home/.cache/kodiak/envoy/1.40.0/envoy
get it with `kodiak dp install-envoy`";
        assert_eq!(find(None, &environment).unwrap_err().to_string(), expected);
        let nothing = find(None, &Environment::default()).unwrap_err();
        assert_eq!(nothing.0.len(), 3, "{nothing}");
    }

    #[test]
    fn a_cache_that_depends_on_the_current_folder_is_none() {
        let environment = Environment { xdg_cache_home: Some("cache".into()), ..Environment::default() };
        assert_eq!(cache_folder(&environment), None);
    }
}
