//! `CASES.md` names tests that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// All sources below `folder`.
fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            into.push((path, text));
        }
    }
}

#[test]
fn every_test_that_a_case_names_exists() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runtime = tests.join("../idem-runtime/src");
    let mut all = Vec::new();
    sources(&tests.join("tests"), &mut all);
    sources(&runtime, &mut all);
    let cases = fs::read_to_string(tests.join("CASES.md")).unwrap();
    let (_, tables) = cases.split_once("\n## ").unwrap();
    let mut missing = Vec::new();
    let mut count = 0;
    // Every second piece stands between backticks.
    for name in tables.split('`').skip(1).step_by(2) {
        let exists = match name.rsplit_once("::") {
            _ if name.starts_with("ui/") => tests.join(name).is_file(),
            Some((modules, function))
                if modules.contains("::") || modules.starts_with("stores") || modules == "shapes" =>
            {
                let modules: Vec<_> =
                    modules.split("::").filter(|module| !["unit", "tests"].contains(module)).collect();
                let here = |path: &Path| {
                    let parts: Vec<_> =
                        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
                    modules.iter().all(|module| parts.iter().any(|part| part == module))
                };
                // A shape's test is a row of a table.
                let heads = [format!("fn {function}("), format!("fn {function}<"), format!("    {function}: \"")];
                all.iter().any(|(path, text)| here(path) && heads.iter().any(|head| text.contains(head)))
            }
            _ => continue,
        };
        count += 1;
        if !exists {
            missing.push(name);
        }
    }
    assert!(count > 100 && missing.is_empty(), "of {count} names these are none: {missing:?}");
}
