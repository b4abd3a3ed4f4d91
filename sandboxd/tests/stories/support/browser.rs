//! A headless browser that visits previews like a user. Needs Debian's packages chromium and chromium-driver. If they
//! are missing, a story that needs them is skipped. In continuous integration it fails.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thirtyfour::{By, ChromiumLikeCapabilities, DesiredCapabilities, WebDriver};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::harness::{SOON, skip, until};

/// Runs before the scripts of a page.
const COUNT_SOCKETS: &str = "window.openSockets = 0; const Native = window.WebSocket; \
    window.WebSocket = class extends Native { constructor(...args) { super(...args); \
    this.addEventListener('open', () => { window.openSockets += 1; }); } };";

/// Runs before the scripts of a page. The policy of a page may refuse something before it has loaded.
const NOTE_VIOLATIONS: &str = "window.violations = []; \
    document.addEventListener('securitypolicyviolation', (event) => \
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));";

/// Lists the findings of axe, one line each.
const AUDIT: &str = "const { violations } = await window.axe.run(document);
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`);";

/// axe, which `make web` installs.
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chat/web/node_modules/axe-core/axe.min.js");

/// Time limit for a script of a page. The longest one makes 19 attempts one after the other.
const SCRIPT: Duration = Duration::from_secs(90);

/// A browser with its own profile. It ends with its story.
pub(crate) struct Browser {
    // Dropped first: it asks the browser to end, which the driver does.
    driver: WebDriver,
    /// Kept open, because the driver ends when it cannot write its output.
    _said: Said,
    _chromedriver: Child,
}

type Said = Lines<BufReader<ChildStdout>>;

impl Browser {
    /// Starts a browser. Returns `None` if this machine has none.
    pub(crate) async fn start() -> Option<Self> {
        // The driver chooses a free port and prints it. It finds the browser by its usual name.
        let chromedriver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut chromedriver = match chromedriver {
            Ok(child) => child,
            Err(error) => {
                skip(format!("there is no chromedriver ({error}): apt-get install chromium chromium-driver"));
                return None;
            }
        };
        let mut said = BufReader::new(chromedriver.stdout.take().unwrap()).lines();
        let port = timeout(SOON, port_in(&mut said)).await.expect("chromedriver says its port");
        let mut request = DesiredCapabilities::chrome();
        for argument in [
            "--headless=new",
            // Its own sandbox needs privileges that neither root nor a container has. The isolation between pages does
            // not depend on it.
            "--no-sandbox",
            // /dev/shm is small in a container.
            "--disable-dev-shm-usage",
            // Pop-ups normally wait for a user's click, which a hostile page would obtain by a trick.
            "--disable-popup-blocking",
        ] {
            request.add_arg(argument).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), request).await.unwrap();
        driver.set_script_timeout(SCRIPT).await.unwrap();
        Some(Self { driver, _said: said, _chromedriver: chromedriver })
    }

    /// Saves downloads in a directory, instead of asking where.
    pub(crate) async fn save_downloads_in(&self, dir: &Path) {
        let behavior = json!({ "behavior": "allow", "downloadPath": dir });
        self.driver.cdp().send_raw("Browser.setDownloadBehavior", behavior).await.unwrap();
    }

    /// Makes later pages count their open WebSockets, for [`Self::has_socket`].
    pub(crate) async fn count_sockets(&self) {
        let script = json!({ "source": COUNT_SOCKETS });
        self.driver.cdp().send_raw("Page.addScriptToEvaluateOnNewDocument", script).await.unwrap();
    }

    /// Waits until the page has an open WebSocket.
    pub(crate) async fn has_socket(&self) {
        self.sees("window.openSockets > 0").await;
    }

    /// Makes later pages note what their policy refuses, for [`Self::is_sound`].
    async fn note_violations(&self) {
        let script = json!({ "source": NOTE_VIOLATIONS });
        self.driver.cdp().send_raw("Page.addScriptToEvaluateOnNewDocument", script).await.unwrap();
    }

    /// Starts a browser for a story that calls [`Self::is_sound`]. Returns `None` if this machine has no browser or no axe.
    pub(crate) async fn start_with_axe() -> Option<Self> {
        if !Path::new(AXE).exists() {
            skip("axe is not installed: make web");
            return None;
        }
        let browser = Self::start().await?;
        browser.note_violations().await;
        Some(browser)
    }

    /// Checks that the open page's policy has refused nothing, and that axe finds it accessible.
    pub(crate) async fn is_sound(&self, what: &str) {
        let refused: Vec<String> = self.eval("return window.violations").await;
        assert_eq!(refused, [""; 0], "{what}: refused by the policy");
        let axe = std::fs::read_to_string(AXE).unwrap();
        self.driver.execute(axe, Vec::<Value>::new()).await.unwrap();
        let found: Vec<String> = self.settle(AUDIT).await;
        assert_eq!(found, [""; 0], "{what}: not accessible");
    }

    /// Saves a picture of the whole page.
    pub(crate) async fn picture(&self, name: &str) {
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&pictures).unwrap();
        let whole = json!({ "captureBeyondViewport": true });
        let taken = self.driver.cdp().send_raw("Page.captureScreenshot", whole).await.unwrap();
        let picture = BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        std::fs::write(pictures.join(format!("{name}.png")), picture).unwrap();
    }

    /// Makes later pages think that the user prefers dark colours.
    pub(crate) async fn prefer_dark(&self) {
        let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        self.driver.cdp().send_raw("Emulation.setEmulatedMedia", dark).await.unwrap();
    }

    /// Clicks the element that this CSS selector finds.
    pub(crate) async fn click(&self, selector: &str) {
        self.driver.find(By::Css(selector)).await.unwrap().click().await.unwrap();
    }

    /// Clicks the link with this text.
    pub(crate) async fn follow(&self, text: &str) {
        self.driver.find(By::LinkText(text)).await.unwrap().click().await.unwrap();
    }

    /// Presses the Back button.
    pub(crate) async fn back(&self) {
        self.driver.back().await.unwrap();
    }

    /// Sets the size of the window.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        self.driver.set_window_rect(0, 0, width, height).await.unwrap();
    }

    /// Makes the window as large as that of a desktop. Otherwise pages have the layout for a phone.
    pub(crate) async fn enlarge(&self) {
        self.driver.set_window_rect(0, 0, 1400, 1000).await.unwrap();
    }

    /// Follows a link in the open tab.
    pub(crate) async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    /// The return value of a script, the body of a function, in the page.
    pub(crate) async fn eval<T: DeserializeOwned>(&self, script: &str) -> T {
        self.driver.execute(script, Vec::<Value>::new()).await.unwrap().convert().unwrap()
    }

    /// The result of the promise that a script returns.
    pub(crate) async fn settle<T: DeserializeOwned>(&self, script: &str) -> T {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {script} }})().then(done, (error) => done(String(error)))"
        );
        self.driver.execute_async(script, Vec::<Value>::new()).await.unwrap().convert().unwrap()
    }

    /// Waits until an expression holds in the page, also across navigation.
    pub(crate) async fn sees(&self, expression: &str) {
        let script = format!("try {{ return Boolean({expression}); }} catch {{ return false; }}");
        until(&format!("the page has {expression}"), || async {
            let held = self.driver.execute(&*script, Vec::<Value>::new()).await;
            // There is no page to query while one is replaced.
            held.is_ok_and(|held| held.json().as_bool() == Some(true))
        })
        .await;
    }

    /// Waits until the page's text contains `text`.
    pub(crate) async fn reads(&self, text: &str) {
        self.sees(&format!("document.body.innerText.includes({})", Value::from(text))).await;
    }

    /// Types a text into the element that this CSS selector finds.
    pub(crate) async fn type_into(&self, selector: &str, text: &str) {
        let element = self.driver.find(By::Css(selector)).await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// The URL in the address bar.
    pub(crate) async fn address(&self) -> String {
        self.driver.current_url().await.unwrap().into()
    }

    /// All cookies of the open page, including HttpOnly ones, as `name=value`.
    pub(crate) async fn cookies(&self) -> Vec<String> {
        let cookies = self.driver.get_all_cookies().await.unwrap();
        cookies.into_iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect()
    }

    /// Closes the browser.
    pub(crate) async fn quit(self) {
        self.driver.quit().await.unwrap();
    }
}

/// Reads `… started successfully on port N.`
async fn port_in(said: &mut Said) -> u16 {
    while let Some(line) = said.next_line().await.unwrap() {
        let Some((_, rest)) = line.split_once("successfully on port ") else { continue };
        return rest.trim_end_matches('.').parse().unwrap();
    }
    panic!("chromedriver ended");
}
