//! What an index says about one package, with the addresses of its files replaced (PEP 503 and 691).
//!
//! The program that resolves packages asks the relay for files by name. So it reaches exactly the files that the index has
//! named, and no address of its own choice.

use reqwest::Url;
use serde_json::Value;

use crate::Error;

/// End of the names of files that can be unpacked without building anything.
const WHEEL: &str = ".whl";
/// Ends of the names of source code (PEP 625, and ZIP before it).
const SOURCES: [&str; 2] = [".tar.gz", ".zip"];
/// Beginning of the paths of files at the relay.
pub(crate) const FILES: &str = "/files/";

/// A page, and what it names.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The page with other addresses.
    pub(crate) text: String,
    /// Names and addresses of its wheels.
    pub(crate) wheels: Vec<(String, Url)>,
    /// Names and addresses of its source code.
    pub(crate) sources: Vec<(String, Url)>,
    /// Whether the index names files that are not wheels. Beside wheels, the page has no source code, so that the wheel of an
    /// older version is preferred to building a newer one. Nothing is at the addresses of other files.
    pub(crate) has_other_files: bool,
}

impl Page {
    fn add(&mut self, name: String, url: Url) {
        if is_wheel(&name) {
            self.wheels.push((name, url));
            return;
        }
        self.has_other_files = true;
        if is_source(&name) {
            self.sources.push((name, url));
        }
    }
}

/// Reads a page in JSON. `at` is its address.
pub(crate) fn from_json(body: &[u8], at: &Url) -> Result<Page, Error> {
    let mut page: Value =
        serde_json::from_slice(body).map_err(|_| Error::Malformed("the page of the index"))?;
    let files = page.get_mut("files").and_then(Value::as_array_mut);
    let files = files.ok_or(Error::Malformed("the page of the index"))?;
    let mut read = Page::default();
    let has_wheels = files.iter().filter_map(|file| file_of(file, at)).any(|(name, _)| is_wheel(&name));
    files.retain_mut(|file| {
        let Some((name, url)) = file_of(file, at) else { return false };
        file["url"] = Value::String(path_of(&name));
        let is_hidden = has_wheels && is_source(&name);
        read.add(name, url);
        !is_hidden
    });
    Ok(Page { text: page.to_string(), ..read })
}

fn file_of(file: &Value, at: &Url) -> Option<(String, Url)> {
    let name = file.get("filename")?.as_str().filter(|name| is_plain(name))?;
    let url = at.join(file.get("url")?.as_str()?).ok()?;
    Some((name.to_owned(), url))
}

/// Reads a page in HTML, of which only the links matter. `at` is its address.
pub(crate) fn from_html(body: &[u8], at: &Url) -> Result<Page, Error> {
    let body = std::str::from_utf8(body).map_err(|_| Error::Malformed("the page of the index"))?;
    let mut page = Page::default();
    let links = || body.split("<a ").skip(1).filter_map(Link::parse).filter(|link| is_plain(link.name));
    let has_wheels = links().any(|link| is_wheel(link.name));
    for link in links() {
        let Ok(mut url) = at.join(&link.address.replace("&amp;", "&")) else { continue };
        let fragment = url.fragment().map(|hash| format!("#{hash}")).unwrap_or_default();
        url.set_fragment(None);
        let path = path_of(link.name);
        let Link { before, after, name, .. } = link;
        if !(has_wheels && is_source(name)) {
            page.text.push_str(&format!("<a {before}href=\"{path}{fragment}\"{after}>{name}</a>\n"));
        }
        page.add(name.to_owned(), url);
    }
    page.text = format!("<!DOCTYPE html><html><body>\n{}</body></html>\n", page.text);
    Ok(page)
}

/// A link in HTML.
struct Link<'a> {
    /// Attributes before and after the address.
    before: &'a str,
    address: &'a str,
    after: &'a str,
    /// Name of the file.
    name: &'a str,
}

impl<'a> Link<'a> {
    /// Reads what follows `<a `.
    fn parse(text: &'a str) -> Option<Self> {
        let (before, rest) = text.split_once("href=")?;
        let quote = rest.chars().next().filter(|char| matches!(char, '"' | '\''))?;
        let (address, rest) = rest[1..].split_once(quote)?;
        let (after, rest) = rest.split_at(end_of_tag(rest)?);
        let name = rest[1..].split_once("</a>")?.0.trim();
        (!before.contains('>')).then_some(Self { before, address, after, name })
    }
}

/// Position of the `>` that ends a tag. One in quotes does not: `data-requires-python=">=3.9"`.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, char)| {
        match (char, quote) {
            ('>', None) => return Some(at),
            ('"' | '\'', None) => quote = Some(char),
            (char, Some(open)) if char == open => quote = None,
            _ => {}
        }
        None
    })
}

/// Whether the name of a file is that of a wheel (PEP 427).
pub(crate) fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL) && is_plain(name)
}

/// Whether the name of a file is that of source code.
pub(crate) fn is_source(name: &str) -> bool {
    SOURCES.iter().any(|end| name.ends_with(end)) && is_plain(name)
}

/// Whether the name of a file can be part of a path.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+!~".contains(&byte))
}

/// Path of a file at the relay.
fn path_of(name: &str) -> String {
    format!("{FILES}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Url {
        "https://index.example/simple/a/".parse().unwrap()
    }

    fn addresses(page: &Page) -> Vec<&str> {
        page.wheels.iter().map(|(_, url)| url.as_str()).collect()
    }

    #[test]
    fn json_keeps_everything_about_wheels_but_addresses() {
        let body = r#"{"meta":{"api-version":"1.1"},"name":"a","files":[
            {"filename":"a-1.tar.gz","url":"https://files.example/a-1.tar.gz","hashes":{}},
            {"filename":"a-1-py3-none-any.whl","url":"https://files.example/a","hashes":{"sha256":"00"},"requires-python":">=3"},
            {"filename":"a-2-py3-none-any.whl","url":"../../a2.whl","hashes":{}},
            {"filename":"../a.whl","url":"https://files.example/x"},
            {"filename":"a-3-py3-none-any.whl"}]}"#;
        let page = from_json(body.as_bytes(), &at()).unwrap();
        assert_eq!(addresses(&page), ["https://files.example/a", "https://index.example/a2.whl"]);
        assert!(page.has_other_files);
        assert_eq!(page.sources[0].1.as_str(), "https://files.example/a-1.tar.gz");
        let read: Value = serde_json::from_str(&page.text).unwrap();
        assert_eq!(read["files"][0]["url"], "/files/a-1-py3-none-any.whl");
        assert_eq!(read["files"][0]["requires-python"], ">=3");
        assert_eq!(read["files"][1]["url"], "/files/a-2-py3-none-any.whl");
        assert_eq!(read["files"].as_array().unwrap().len(), 2, "without the source code");
        for bad in ["", "{}", "[]", r#"{"files":1}"#] {
            assert!(from_json(bad.as_bytes(), &at()).is_err(), "{bad}");
        }
    }

    #[test]
    fn source_code_is_on_a_page_without_wheels() {
        let json =
            r#"{"files":[{"filename":"a-1.tar.gz","url":"a-1.tar.gz"},{"filename":"a.egg","url":"a.egg"}]}"#;
        let html = "<a href=\"a-1.tar.gz\">a-1.tar.gz</a><a href=\"a.egg\">a.egg</a>";
        for page in [from_json(json.as_bytes(), &at()).unwrap(), from_html(html.as_bytes(), &at()).unwrap()] {
            assert!(
                page.text.contains("/files/a-1.tar.gz") && page.text.contains("/files/a.egg"),
                "{page:?}"
            );
            assert_eq!((page.sources.len(), page.has_other_files), (1, true));
        }
    }

    #[test]
    fn html_keeps_the_attributes_of_links() {
        let body = "<html><head><title>a</title></head><body><h1>a</h1>
            <a href=\"https://files.example/a-1.tar.gz#sha256=00\">a-1.tar.gz</a><br>
            <a href='../../f/a-1-py3-none-any.whl?x=1&amp;y=2#sha256=00' data-requires-python='>=3.9'>a-1-py3-none-any.whl</a>
            <a data-yanked href=\"https://files.example/b\" data-core-metadata=\"true\">
                a-2-py3-none-any.whl </a>
            <a name=x>a-3-py3-none-any.whl</a> <a href=\"unclosed";
        let page = from_html(body.as_bytes(), &at()).unwrap();
        let expected = ["https://index.example/f/a-1-py3-none-any.whl?x=1&y=2", "https://files.example/b"];
        assert_eq!(addresses(&page), expected);
        assert!(page.has_other_files);
        assert_eq!(page.sources[0].1.as_str(), "https://files.example/a-1.tar.gz");
        let links: Vec<&str> = page.text.lines().filter(|line| line.starts_with("<a")).collect();
        assert_eq!(
            links,
            [
                "<a href=\"/files/a-1-py3-none-any.whl#sha256=00\" data-requires-python='>=3.9'>a-1-py3-none-any.whl</a>",
                "<a data-yanked href=\"/files/a-2-py3-none-any.whl\" data-core-metadata=\"true\">a-2-py3-none-any.whl</a>",
            ]
        );
    }
}
