use std::fs;

use futures::TryStreamExt;

use super::super::UploadSeed;
use super::*;

fn survey(root: &Path) -> Survey {
    let (root, include) = (root.to_owned(), "**/*".to_owned());
    Survey::of(&UploadSeed { root, include, max_files: 10, max_bytes: 1 << 30 }).unwrap()
}

async fn packed(survey: Survey) -> (io::Result<Vec<u8>>, Result<()>) {
    let (archive, packing) = stream(survey, "under/here".into());
    let bytes = archive.map_ok(|piece| piece.to_vec()).try_concat().await;
    (bytes, packing.await.unwrap())
}

/// Entries of an archive: path, mode and content.
fn members(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), entry.header().mode().unwrap(), content)
    });
    entries.collect()
}

#[tokio::test]
async fn a_growing_file_is_cut_at_its_counted_size() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("log"), "counted").unwrap();
    let survey = survey(root.path());
    fs::write(root.path().join("log"), "counted and more").unwrap();
    let (archive, packing) = packed(survey).await;
    packing.unwrap();
    let members = members(&archive.unwrap());
    assert_eq!((members[1].0.as_str(), &members[1].2[..]), ("under/here/log", &b"counted"[..]));
    assert_eq!((members[0].0.trim_end_matches('/'), members.len()), ("under/here", 2));
}

#[tokio::test]
async fn a_shrunken_or_removed_file_ends_the_archive_without_its_end_mark() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "x".repeat(1 << 20)).unwrap();
    let counted = survey(root.path());
    fs::write(root.path().join("file"), "x".repeat(1 << 19)).unwrap();
    let (archive, packing) = packed(counted).await;
    let error = packing.unwrap_err();
    assert!(matches!(&error, Error::Shrunk { path } if path == Path::new("file")), "{error:?}");
    archive.unwrap_err();

    let counted = survey(root.path());
    fs::remove_file(root.path().join("file")).unwrap();
    let (archive, packing) = packed(counted).await;
    assert!(matches!(packing, Err(Error::Unreadable { .. })), "{packing:?}");
    archive.unwrap_err();
}

#[tokio::test]
async fn packing_ends_with_its_reader() {
    let root = tempfile::tempdir().unwrap();
    // More than the buffers in between can hold, even compressed.
    let mut noise = vec![0; 4 << 20];
    let mut state = 1_u32;
    for byte in &mut noise {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    fs::write(root.path().join("noise"), &noise).unwrap();
    let (archive, packing) = stream(survey(root.path()), "x".into());
    drop(archive);
    packing.await.unwrap().unwrap();

    let (archive, packing) = packed(survey(root.path())).await;
    packing.unwrap();
    assert!(members(&archive.unwrap())[1].2 == noise);
}
