//! Images that a model reads.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

/// Writes a PNG of one colour with these sizes. The image has no library for pictures.
pub(super) const PICTURES: &str = r#"python3 - <<'END'
import struct, zlib
def png(path, width, height, rows=None):
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\0' + b'\x20\x40\x80' * width) * height if rows is None else rows
    header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    body = chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
    open(path, 'wb').write(b'\x89PNG\r\n\x1a\n' + body)
png('small.png', 40, 20)
png('large.png', 3000, 300)
png('bomb.png', 19000, 19000, b'')
open('cut.png', 'wb').write(open('small.png', 'rb').read()[:60])
END"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_an_image_block_of_limited_size() {
    let daemon = Daemon::start().await;
    for client in [Mcp::of(&daemon), Mcp::of(&daemon).legacy().await] {
        let client = client.in_session("images");
        client.output(PICTURES).await;
        let read = |path: &'static str| {
            client.ask("tools/call", json!({ "name": "read", "arguments": { "path": path } }))
        };
        let small = read("small.png").await["result"].clone();
        assert!(small.get("structuredContent").is_none(), "{small}");
        assert_eq!(small["content"][0]["text"], "small.png: 40x20 pixels");
        let image = &small["content"][1];
        assert_eq!((&image["type"], &image["mimeType"]), (&"image".into(), &"image/png".into()));
        let bytes = BASE64_STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
        let sandbox =
            client.result("sandbox_info", json!({})).await["sandbox"].as_str().unwrap().parse().unwrap();
        assert_eq!(daemon.client.read_file(&sandbox, "small.png").await.unwrap(), Some(bytes));

        let large = read("large.png").await["result"].clone();
        assert_eq!(large["content"][0]["text"], "large.png: 3000x300 pixels, shown at 2000x200");
        for (path, problem) in [("bomb.png", "cannot be shown"), ("cut.png", "cannot be shown")] {
            let failure = client.failure("read", json!({ "path": path })).await;
            assert!(failure.contains(path) && failure.contains(problem), "{failure}");
        }
    }
    daemon.stop().await;
}
