//! The store on a full disk, and after space was freed.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{NewTurn, OwnedChats, Removal, Store};
use crate::account::Owner;
use crate::turn::{Message, Role};

/// A disk of 2 MiB, removed on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Returns `None` if this user may not mount a disk.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "none"])
            .arg(dir.path())
            .output()
            .unwrap();
        mount.status.success().then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

async fn say(store: &OwnedChats, id: &str) -> Result<(), super::Error> {
    let message = Message::of_user(id.into(), &"word ".repeat(10_000));
    let turn = NewTurn {
        chat: "1",
        title: "t",
        subject: None,
        model: None,
        removal: &Removal::Nothing,
        message: Some(&message),
        open: None,
    };
    store.begin_turn(turn).await?;
    let answer =
        Message { id: format!("to {id}"), role: Role::Assistant, parts: vec![json!({ "type": "text" })] };
    store.put_answer("1", &answer).await
}

#[tokio::test]
async fn chats_are_stored_again_when_the_disk_has_space() {
    let Some(disk) = SmallDisk::mount() else {
        test_daemon::skip("only root can mount a disk");
        return;
    };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap();
    let store = Store::open(disk.path()).await.unwrap().chats_of(Owner::Everyone);
    let mut kept = 0;
    while say(&store, &format!("before {kept}")).await.is_ok() {
        kept += 1;
        assert!(kept < 1000, "the disk is never full");
    }
    for n in 0..8 {
        say(&store, &format!("full {n}")).await.unwrap_err();
    }
    std::fs::remove_file(&filler).unwrap();
    say(&store, "after").await.unwrap();
    let messages = store.messages("1").await.unwrap();
    assert_eq!(messages.last().unwrap().id, "to after");
    assert!(messages.len() >= kept * 2 + 2, "{} of {kept}", messages.len());
}
