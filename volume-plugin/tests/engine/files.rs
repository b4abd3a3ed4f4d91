//! Files of a base behave like the sandbox's own, and the base never changes.

use crate::fixture::{DISK_MIB, OTHER_USER, USER, World};

const BASE: &str = r#"
    mkdir -p workspace/src/deep/deeper workspace/gone workspace/empty .local outputs
    cd workspace
    echo 'fn main() {}' >src/main.rs
    echo deep >src/deep/deeper/file
    echo one >one && ln one two
    echo '#!/bin/bash' >tool && chmod 755 tool
    echo old >old && touch -d @1000000000 old
    echo x >gone/x && echo y >removed && echo kept >'name with spaces'
    ln -s src/main.rs link
    mkfifo pipe
"#;

/// Changes everything once.
const CHANGE: &str = r#"
    cd /v/workspace
    [[ $(stat -c %u:%g src/main.rs one link . ..) == $'20001:20001\n20001:20001\n20001:20001\n20001:20001\n0:0' ]]
    [[ $(stat -c %Y old) == 1000000000 && $(cat link) == 'fn main() {}' && -p pipe ]]
    echo more >>src/main.rs
    mv src renamed
    mv renamed/deep deep
    [[ $(stat -c '%i %h' one) == $(stat -c '%i %h' two) ]]
    echo more >>one
    ln one three
    chmod 700 tool
    touch -d @1100000000 old
    rm -r gone removed
    mkdir gone
    mv empty full && echo content >full/file
    ln -s nowhere dangling
    cp 'name with spaces' copy
    ! [[ -e src || -e empty ]]
    grep -q ' /v overlay .*index=on' /proc/self/mounts
    grep -q ' /v .*nosuid,nodev' /proc/self/mounts
"#;

/// Holds after the change, also when the volume was unmounted and mounted meanwhile.
const CHECK: &str = r#"
    cd /v/workspace
    [[ $(cat renamed/main.rs) == $'fn main() {}\nmore' && $(cat deep/deeper/file) == deep ]]
    [[ $(cat one) == $'one\nmore' && $(cat two) == $(cat one) && $(cat three) == $(cat one) ]]
    [[ $(stat -c %h one) == 3 && $(stat -c %i one) == $(stat -c %i two) && $(stat -c %i three) == $(stat -c %i one) ]]
    [[ $(stat -c %a tool) == 700 && $(stat -c %Y old) == 1100000000 ]]
    [[ -z $(ls -A gone) && ! -e removed && ! -e src && ! -e empty && ! -e renamed/deep ]]
    [[ $(cat full/file) == content && -L dangling && -L link && $(cat copy) == kept ]]
    [[ $(find . | wc -l) == 19 ]]
    [[ $(ls -A /v) == $'.local\n.staging\noutputs\nworkspace' ]]
    echo written >again && rm again
"#;

#[test]
fn files_of_a_base_behave_like_own_files() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    world.run(&volume, USER, &format!("{CHANGE}{CHECK}"));
    world.run(&volume, USER, CHECK);
}

#[test]
fn neither_sandbox_sees_the_other_and_the_base_stays() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let before = world.image_of(&base);
    let (one, two) = (world.disk(DISK_MIB, USER), world.disk(DISK_MIB, OTHER_USER));
    let first = world.volume(&plugin, &one, &base, USER);
    let second = world.volume(&plugin, &two, &base, OTHER_USER);
    // Both are mounted at the same time.
    let container = world.start(&first, USER);
    world.exec(&container, CHANGE);
    let unchanged = r#"
        cd /v/workspace
        [[ $(stat -c %u:%g src/main.rs) == 20002:20002 && $(cat src/main.rs) == 'fn main() {}' ]]
        [[ $(cat one) == one && -e gone/x && -e removed && ! -e renamed && $(stat -c %Y old) == 1000000000 ]]
        echo other >src/main.rs
    "#;
    world.run(&second, OTHER_USER, unchanged);
    world.exec(&container, CHECK);
    assert!(before == world.image_of(&base), "the base was written");
}

#[test]
fn the_quota_of_the_disk_holds() {
    let Some(world) = World::on_machine() else { return };
    let plugin = world.plugin();
    let base =
        world.base("mkdir workspace && dd if=/dev/zero of=workspace/large bs=1M count=100 status=none");
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let script = r#"
        cd /v/workspace
        [[ $(stat -c %s large) == 104857600 ]]
        ! dd if=/dev/zero of=new bs=1M count=100 status=none 2>/tmp/error
        grep -q 'No space left' /tmp/error
        (( $(stat -c %s new) < 64 << 20 ))
        rm new
        # A file of the base that is larger than the disk cannot be changed. It stays as it is.
        ! echo >>large 2>/tmp/error
        [[ $(stat -c %s large) == 104857600 ]]
        echo works >small
        # Files of the base take nothing of the disk, and can be removed.
        rm large
        (( $(df --output=used -m /v | grep -o "[0-9]*") < 10 ))
    "#;
    world.run(&volume, USER, script);
}

/// Each mount needs an inode and a block for a moment.
#[test]
fn a_full_disk_can_be_mounted_again() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let inodes = r#"
        mkdir -p /v/workspace/many && cd /v/workspace/many
        set +x
        number=0
        while : 2>/dev/null >$number; do number=$((number + 1)); done
        set -x
        (( $(df --output=iavail /v | grep -o "[0-9]*") == 0 ))
    "#;
    let blocks = r#"
        cd /v/workspace
        ! dd if=/dev/zero of=large bs=4096 status=none 2>/dev/null
        ! dd if=/dev/zero of=larger bs=512 count=8 status=none 2>/dev/null
    "#;
    for fill in [inodes, blocks] {
        world.run(&volume, USER, fill);
        world.run(&volume, USER, "cd /v/workspace && rm -rf many large larger && echo works >small");
        world.run(&volume, USER, "[[ $(cat /v/workspace/small) == works ]]");
    }
}

#[test]
fn git_works_over_a_base() {
    let Some(world) = World::on_machine() else { return };
    let git = "git -c user.name=n -c user.email=e@example.org -c init.defaultBranch=main";
    let base = world.base(&format!(
        "mkdir workspace && cd workspace && {git} init --quiet --template= && mkdir src
         for number in {{1..200}}; do echo $number >src/$number; done
         {git} add . && {git} commit --quiet --message first"
    ));
    let plugin = world.plugin();
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let script = format!(
        "export HOME=/tmp GIT_CONFIG_NOSYSTEM=1
         cd /v/workspace
         [[ -z $(git status --porcelain) ]]
         echo changed >src/1 && mv src/2 src/two && rm src/3
         [[ $(git status --porcelain | wc -l) == 4 ]]
         {git} add . && {git} commit --quiet --message second
         {git} checkout --quiet -b other HEAD~1
         [[ $(cat src/1) == 1 && -e src/3 && -z $(git status --porcelain) ]]
         git fsck --no-progress
         {git} gc --quiet
         [[ $(git log --oneline --all | wc -l) == 2 ]]"
    );
    world.run(&volume, USER, &script);
}
