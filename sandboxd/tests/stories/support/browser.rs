//! A browser without a window, which looks at previews as a person does.
//!
//! Debian's packages chromium and chromium-driver. Where they are missing a story that needs them says so and is left
//! out, but not in continuous integration: there it fails.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities, WebDriver};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::harness::{SOON, skip, until};

/// Runs before the scripts of a page.
const COUNT_SOCKETS: &str = "window.openSockets = 0; const Native = window.WebSocket; \
    window.WebSocket = class extends Native { constructor(...args) { super(...args); \
    this.addEventListener('open', () => { window.openSockets += 1; }); } };";

/// Time for a script of a page: the longest one makes 19 attempts one after the other.
const SCRIPT: Duration = Duration::from_secs(90);

/// A browser with a profile of its own, which ends with its story.
pub(crate) struct Browser {
    // Dropped first: it asks the browser to end, and the driver is who ends it.
    driver: WebDriver,
    /// Kept, because it ends with the first line that nobody can read.
    _said: Said,
    _chromedriver: Child,
}

type Said = Lines<BufReader<ChildStdout>>;

impl Browser {
    /// A new one; `None` where this machine has none.
    pub(crate) async fn start() -> Option<Self> {
        // The driver chooses a free port and says which; the browser beside it is found by its usual name.
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
        let mut wish = DesiredCapabilities::chrome();
        for argument in [
            "--headless=new",
            // Its own sandbox needs rights that neither root nor a container has; what keeps pages apart does not.
            "--no-sandbox",
            // /dev/shm is small in a container.
            "--disable-dev-shm-usage",
            // A person's click is what pop-ups wait for, and a page that attacks would have tricked one out of them.
            "--disable-popup-blocking",
        ] {
            wish.add_arg(argument).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wish).await.unwrap();
        driver.set_script_timeout(SCRIPT).await.unwrap();
        Some(Self { driver, _said: said, _chromedriver: chromedriver })
    }

    /// Counts the WebSockets that the pages to come have open, for [`Self::has_socket`].
    pub(crate) async fn count_sockets(&self) {
        let script = json!({ "source": COUNT_SOCKETS });
        self.driver.cdp().send_raw("Page.addScriptToEvaluateOnNewDocument", script).await.unwrap();
    }

    /// Waits until the page has an open WebSocket.
    pub(crate) async fn has_socket(&self) {
        self.sees("window.openSockets > 0").await;
    }

    /// Follows a link in the open tab.
    pub(crate) async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    /// What a script, the body of a function, returns in the page.
    pub(crate) async fn eval<T: DeserializeOwned>(&self, script: &str) -> T {
        self.driver.execute(script, Vec::<Value>::new()).await.unwrap().convert().unwrap()
    }

    /// What a promise that a script returns comes to.
    pub(crate) async fn settle<T: DeserializeOwned>(&self, script: &str) -> T {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {script} }})().then(done, (error) => done(String(error)))"
        );
        self.driver.execute_async(script, Vec::<Value>::new()).await.unwrap().convert().unwrap()
    }

    /// Waits until an expression holds in the page, whichever page that is by then.
    pub(crate) async fn sees(&self, expression: &str) {
        let script = format!("try {{ return Boolean({expression}); }} catch {{ return false; }}");
        until(&format!("the page has {expression}"), || async {
            let held = self.driver.execute(&*script, Vec::<Value>::new()).await;
            // While a page is replaced there is none to ask.
            held.is_ok_and(|held| held.json().as_bool() == Some(true))
        })
        .await;
    }

    /// Waits until the page's text has a part.
    pub(crate) async fn reads(&self, text: &str) {
        self.sees(&format!("document.body.innerText.includes({})", Value::from(text))).await;
    }

    /// The address in the bar.
    pub(crate) async fn address(&self) -> String {
        self.driver.current_url().await.unwrap().into()
    }

    /// Every cookie of the open page's, HttpOnly ones too, as `name=value`.
    pub(crate) async fn cookies(&self) -> Vec<String> {
        let cookies = self.driver.get_all_cookies().await.unwrap();
        cookies.into_iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect()
    }

    /// Ends it.
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
