//! The page in the browser: its files, as they are served.
//!
//! Plain ES modules without a build step: what is in `files/` is what a browser gets. The types in their comments are
//! checked by `tests/javascript/run`. No file loads anything from another host, and none builds markup from text: every
//! element is made by `dom.js`, which takes text as text. Serving, sign-in and data are up to `service`.

#![forbid(unsafe_code)]

/// What a browser may do with the page: load its own files, connect to its own origin, nothing else. No inline script or
/// style, no frame around it, no string that becomes markup or code.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct PageFile {
    /// Its name below `/page/`.
    pub name: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal $media_type:literal)*) => {
        &[$(PageFile { name: $name, media_type: $media_type, text: include_str!(concat!("../files/", $name)) }),*]
    };
}

/// All files; the first one is the page itself.
pub const FILES: &[PageFile] = files! {
    "index.html" "text/html; charset=utf-8"
    "style.css" "text/css; charset=utf-8"
    "icon.svg" "image/svg+xml"
    "app.js" "text/javascript; charset=utf-8"
    "api.js" "text/javascript; charset=utf-8"
    "dom.js" "text/javascript; charset=utf-8"
    "charts.js" "text/javascript; charset=utf-8"
    "editor.js" "text/javascript; charset=utf-8"
    "sign-in.js" "text/javascript; charset=utf-8"
    "overview.js" "text/javascript; charset=utf-8"
    "pending.js" "text/javascript; charset=utf-8"
    "question.js" "text/javascript; charset=utf-8"
    "form.js" "text/javascript; charset=utf-8"
    "login.js" "text/javascript; charset=utf-8"
    "runs.js" "text/javascript; charset=utf-8"
    "kept-runs.js" "text/javascript; charset=utf-8"
    "run.js" "text/javascript; charset=utf-8"
    "tools.js" "text/javascript; charset=utf-8"
    "playground.js" "text/javascript; charset=utf-8"
    "policy.js" "text/javascript; charset=utf-8"
    "doctor.js" "text/javascript; charset=utf-8"
};

/// The file of that name.
pub fn file(name: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page and everything that it loads.
    const MAX_BYTES: usize = 150 * 1024;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|file| file.text.len()).sum();
        assert!(bytes < MAX_BYTES, "{bytes} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/files");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        there.sort();
        let mut served: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(there, served);
        assert!(file("../src/lib.rs").is_none() && file("").is_none());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup_or_code() {
        let forbidden = [
            "http://",
            "https://",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
            "srcdoc",
            "javascript:",
            "setHTML",
            "createContextualFragment",
        ];
        for file in FILES {
            // The name of the namespace of SVG is an address that nothing is loaded from.
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for word in forbidden {
                assert!(!text.contains(word), "{} has {word}", file.name);
            }
        }
    }

    #[test]
    fn the_markup_has_no_inline_script_or_style() {
        let page = FILES[0].text;
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=\"").count());
        assert!(!page.contains("<style") && !page.contains("style=\"") && !page.contains(" on"), "{page}");
    }
}
