//! An index of Python packages (PEP 503 and 691), and wheels (PEP 427).

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};

/// The files of each package, by their names.
#[derive(Debug, Default)]
pub(crate) struct Index(BTreeMap<String, BTreeMap<String, Vec<u8>>>);

impl Index {
    pub(crate) fn add(&mut self, package: &str, file: &str, bytes: Vec<u8>) {
        self.0.entry(package.to_owned()).or_default().insert(file.to_owned(), bytes);
    }

    pub(crate) fn add_wheel(
        &mut self,
        package: &str,
        version: &str,
        modules: &[(&str, &str)],
        requires: &[&str],
    ) {
        let name = package.replace('-', "_");
        let info = format!("{name}-{version}.dist-info");
        let requires: String = requires.iter().map(|one| format!("Requires-Dist: {one}\n")).collect();
        let metadata = format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{requires}");
        let wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        let mut files: Vec<(String, String)> =
            modules.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect();
        let has_main = modules.iter().any(|(_, code)| code.contains("def main("));
        if let Some((module, _)) = modules[0].0.split_once(['.', '/']).filter(|_| has_main) {
            let script = format!("[console_scripts]\n{package} = {module}:main\n");
            files.push((format!("{info}/entry_points.txt"), script));
        }
        files.push((format!("{info}/METADATA"), metadata));
        files.push((format!("{info}/WHEEL"), wheel.to_owned()));
        let record: String = files.iter().map(|(path, _)| format!("{path},,\n")).collect();
        files.push((format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n")));
        self.add(package, &format!("{name}-{version}-py3-none-any.whl"), zip(&files));
    }

    /// The page at `/PACKAGE/`. Its files are at `host`.
    pub(crate) fn page(&self, path: &str, host: &str, is_json: bool) -> Response<Body> {
        let Some(files) = self.0.get(path.trim_matches('/')) else { return missing() };
        let url = |name: &String| format!("https://{host}/wheels/{name}");
        let (content_type, page) = if is_json {
            let file = |name| format!(r#"{{"filename":"{name}","url":"{}","hashes":{{}}}}"#, url(name));
            let files: Vec<String> = files.keys().map(file).collect();
            let page = format!(r#"{{"meta":{{"api-version":"1.0"}},"files":[{}]}}"#, files.join(","));
            ("application/vnd.pypi.simple.v1+json", page)
        } else {
            let link =
                |name| format!("<a href=\"{}\" data-requires-python=\"&gt;=3.9\">{name}</a><br>", url(name));
            ("text/html", format!("<!DOCTYPE html><body>{}", files.keys().map(link).collect::<String>()))
        };
        Response::builder().header(header::CONTENT_TYPE, content_type).body(page.into()).unwrap()
    }

    /// The file at `/NAME`.
    pub(crate) fn file(&self, path: &str) -> Response<Body> {
        let name = path.trim_matches('/');
        match self.0.values().find_map(|files| files.get(name)) {
            Some(bytes) => Response::new(bytes.clone().into()),
            None => missing(),
        }
    }
}

fn missing() -> Response<Body> {
    axum::response::IntoResponse::into_response(StatusCode::NOT_FOUND)
}

/// A ZIP archive of files that are stored as they are (APPNOTE.TXT, 4.3).
fn zip(files: &[(String, String)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let (at, size) = ((archive.len() as u32).to_le_bytes(), (text.len() as u32).to_le_bytes());
        let length = (path.len() as u16).to_le_bytes();
        // Version, flags, method and time. A date must not be zero: the first day of 1980.
        let mut common = vec![20, 0, 0, 8, 0, 0, 0, 0, 33, 0];
        common.extend([crc32(text.as_bytes()).to_le_bytes(), size, size].concat());
        common.extend([length, [0; 2]].concat());
        archive.extend([b"PK\x03\x04", &common[..], path.as_bytes(), text.as_bytes()].concat());
        directory.extend([b"PK\x01\x02", &[20, 0][..], &common, &[0; 10], &at, path.as_bytes()].concat());
    }
    let (at, size) = ((archive.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let number = (files.len() as u16).to_le_bytes();
    archive.extend(directory);
    archive.extend([b"PK\x05\x06", &[0; 4][..], &number, &number, &size, &at, &[0; 2]].concat());
    archive
}

/// The checksum of ZIP.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
