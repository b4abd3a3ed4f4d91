//! A whole Open WebUI: its server, and its page in a real browser. A stage of its own runs these stories, because the
//! installation takes a minute and a gigabyte.

mod model;
mod server;

use crate::support::browser::Browser;
use crate::support::harness::Daemon;
use crate::surfaces::home_with_tokens;

use serde_json::Value;
use server::OpenWebUi;

/// A chat in the page.
struct Chat<'b> {
    browser: &'b Browser,
}

impl<'b> Chat<'b> {
    async fn open(browser: &'b Browser, server: &OpenWebUi) -> Self {
        browser.open(&format!("{}/?models={}", server.base, server::AGENT)).await;
        // Before that, it takes no message, or shows no answer.
        browser.has_socket().await;
        browser
            .sees("document.querySelector('#model-selector-model-button').innerText.includes('Agent')")
            .await;
        Self { browser }
    }

    /// Asks the model to run a command, and waits until its answer has this text.
    async fn run(&self, command: &str, answer: &str) {
        self.browser.type_into("#chat-input", command).await;
        let typed =
            format!("document.querySelector('#chat-input').innerText.trim() == {}", Value::from(command));
        self.browser.sees(&typed).await;
        self.click("Send message").await;
        self.browser.reads(answer).await;
    }

    /// Clicks the last button with this label, title or text.
    async fn click(&self, label: &str) {
        let labels = "[button.ariaLabel, button.title, button.innerText.trim()]";
        let find = format!(
            "[...document.querySelectorAll('button')].filter((button) => {labels}.includes('{label}')).at(-1)"
        );
        self.browser.sees(&find).await;
        self.browser.eval::<()>(&format!("{find}.click()")).await;
    }

    /// Connects the chat to the terminal server, which opens the panel with its files.
    async fn connect_terminal(&self) {
        self.click("Terminal").await;
        self.click(server::TERMINAL_SERVER).await;
        self.browser.reads("Workspace\n").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_chat_has_a_sandbox_that_its_user_sees() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let Some(server) = OpenWebUi::start(&daemon, "ann-token").await else { return };
    let Some(browser) = Browser::start().await else { return };
    browser.enlarge().await;
    browser.count_sockets().await;
    server.log_in(&browser).await;

    let chat = Chat::open(&browser, &server).await;
    chat.run("echo from-$((40 + 2)) | tee note", "from-42").await;
    // The tools are those of MCP, the files those of the terminal server. Both belong to the chat.
    chat.connect_terminal().await;
    browser.reads("note\n8.0 B").await;
    chat.click("Expand terminal").await;
    browser.sees("document.querySelector('.xterm-rows')?.innerText.includes('$')").await;
    browser.type_into(".xterm-helper-textarea", "cat note > copy; echo end-$((1 + 1))\n").await;
    browser.sees("document.querySelector('.xterm-rows').innerText.includes('end-2')").await;
    chat.run("xargs -a copy echo copied", "copied from-42").await;

    let other = Chat::open(&browser, &server).await;
    other.run("cat note || echo none-$((40 + 2))", "none-42").await;
    browser.quit().await;
    server.stop().await;
    daemon.stop().await;
}
