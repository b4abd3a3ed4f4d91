//! Chats and their messages.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::SqliteConnection;

use super::Store;
use super::chat::Chat;
use super::error::Error;
use super::row::{ChatRow, MessageRow, role_name};
use super::turns::{self, OpenTurn};
use crate::account::Owner;
use crate::turn::Message;

/// The chats of one owner. There is no other way to the stored chats. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OwnedChats {
    store: Store,
    owner: Owner,
}

/// A page of chats, the most recently changed first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatPage {
    /// At most the requested number of chats.
    pub chats: Vec<Chat>,
    /// Start of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// The start of a turn, which is stored before the answer.
#[derive(Debug, Clone)]
pub struct NewTurn<'a> {
    /// Id of the chat, which is created if it does not exist.
    pub chat: &'a str,
    /// Title of a new chat.
    pub title: &'a str,
    /// Subject that the sandbox of a new chat belongs to, if any.
    pub subject: Option<&'a str>,
    /// Requested model, if any.
    pub model: Option<&'a str>,
    /// Messages to remove first.
    pub removal: &'a Removal,
    /// The user's message. `None` if an answer is regenerated.
    pub message: Option<&'a Message>,
    /// What the next start of the app needs to continue the turn.
    pub open: Option<&'a OpenTurn>,
}

/// Messages that are removed before a new turn.
#[derive(Debug, Clone)]
pub enum Removal {
    /// None.
    Nothing,
    /// This message, if it exists, and all that follow.
    From(String),
    /// All that follow the user's last message.
    LastAnswer,
}

const CHAT: &str = "SELECT id, title, model, created_at, updated_at FROM chats";

impl Store {
    /// Returns the chats of an owner.
    pub fn chats_of(&self, owner: Owner) -> OwnedChats {
        OwnedChats { store: self.clone(), owner }
    }

    /// Whether any owner's chat has the sandbox of this id and subject.
    pub async fn has_sandbox(&self, chat: &str, subject: Option<&str>) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM chats WHERE id = ? AND subject IS ?)";
        Ok(sqlx::query_scalar(select).bind(chat).bind(subject).fetch_one(&self.pool).await?)
    }
}

impl OwnedChats {
    /// Whose chats they are.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns chats by their last change. `cursor` is from the previous page. An invalid one starts at the
    /// beginning.
    pub async fn chats(&self, limit: u32, cursor: Option<&str>) -> Result<ChatPage, Error> {
        let (before, id) = cursor.and_then(parse_cursor).unwrap_or((i64::MAX, ""));
        let select = format!(
            "{CHAT} WHERE owner = ? AND ((updated_at, id) < (?, ?) OR ? = '') \
             ORDER BY updated_at DESC, id DESC LIMIT ?"
        );
        // One more than requested, to know whether there are others.
        let rows: Vec<ChatRow> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(self.owner.as_str())
            .bind(before)
            .bind(id)
            .bind(id)
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.store.pool)
            .await?;
        let mut chats: Vec<Chat> = rows.into_iter().map(Chat::from).collect();
        let has_more = chats.len() > limit as usize;
        chats.truncate(limit as usize);
        let last = chats.last().filter(|_| has_more);
        let next_cursor = last.map(|chat| format!("{}_{}", chat.updated_at.as_millisecond(), chat.id));
        Ok(ChatPage { chats, next_cursor })
    }

    /// Returns a chat.
    pub async fn chat(&self, id: &str) -> Result<Option<Chat>, Error> {
        let select = format!("{CHAT} WHERE owner = ? AND id = ?");
        let select = sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(self.owner.as_str()).bind(id);
        let row: Option<ChatRow> = select.fetch_optional(&self.store.pool).await?;
        Ok(row.map(Chat::from))
    }

    /// Returns the subject that the chat's sandbox belongs to. The outer `None` means that there is no such chat.
    pub async fn subject(&self, id: &str) -> Result<Option<Option<String>>, Error> {
        let select = "SELECT subject FROM chats WHERE owner = ? AND id = ?";
        let select = sqlx::query_scalar(select).bind(self.owner.as_str()).bind(id);
        Ok(select.fetch_optional(&self.store.pool).await?)
    }

    /// Returns a chat's messages, oldest first.
    pub async fn messages(&self, chat: &str) -> Result<Vec<Message>, Error> {
        let select = "SELECT id, role, parts FROM messages WHERE owner = ? AND chat = ? ORDER BY position";
        let select = sqlx::query_as(select).bind(self.owner.as_str()).bind(chat);
        let rows: Vec<MessageRow> = select.fetch_all(&self.store.pool).await?;
        rows.into_iter().map(Message::try_from).collect()
    }

    /// Sets the title of a chat, the model of its next answer, or both. Returns whether it exists.
    pub async fn change(&self, chat: &str, title: Option<&str>, model: Option<&str>) -> Result<bool, Error> {
        let mut change = self.store.writer.begin().await?;
        let update = "UPDATE chats SET title = COALESCE(?, title), model = COALESCE(?, model) WHERE owner = ? AND id = ?";
        let update = sqlx::query(update).bind(title).bind(model).bind(self.owner.as_str()).bind(chat);
        let is_set = update.execute(&mut *change).await?.rows_affected() > 0;
        change.commit().await?;
        Ok(is_set)
    }

    /// Removes a chat with its messages. Safe to repeat.
    pub async fn delete(&self, chat: &str) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        let delete = sqlx::query("DELETE FROM chats WHERE owner = ? AND id = ?");
        delete.bind(self.owner.as_str()).bind(chat).execute(&mut *change).await?;
        change.commit().await
    }

    /// Stores the start of a turn atomically.
    pub async fn begin_turn(&self, turn: NewTurn<'_>) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        let now = Timestamp::now().as_millisecond();
        let upsert =
            "INSERT INTO chats (owner, id, title, model, subject, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
             ON CONFLICT (owner, id) DO UPDATE SET updated_at = ?6, model = COALESCE(?4, model)";
        let upsert = sqlx::query(upsert).bind(self.owner.as_str()).bind(turn.chat).bind(turn.title);
        upsert.bind(turn.model).bind(turn.subject).bind(now).execute(&mut *change).await?;
        let chat = ChatId { owner: self.owner.as_str(), id: turn.chat };
        removal(&mut change, chat, turn.removal).await?;
        if let Some(message) = turn.message {
            append(&mut change, chat, message).await?;
        }
        if let Some(open) = turn.open {
            turns::open(&mut change, chat.owner, chat.id, open).await?;
        }
        change.commit().await
    }

    /// Stores a complete answer and replaces an earlier version of it. Does nothing if its chat was deleted.
    pub async fn put_answer(&self, chat: &str, answer: &Message) -> Result<(), Error> {
        self.put(chat, answer, None).await
    }

    /// Stores an answer so far, with the ids of the calls that have not returned. Does nothing if its chat was deleted.
    pub async fn put_unfinished(
        &self,
        chat: &str,
        answer: &Message,
        pending: &[String],
    ) -> Result<(), Error> {
        self.put(chat, answer, Some(pending)).await
    }

    /// Notes that nothing continues the turn of a chat. Its answer stays as it is stored.
    pub async fn abandon_turn(&self, chat: &str, turn: &str) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        turns::close(&mut change, self.owner.as_str(), chat, turn).await?;
        change.commit().await
    }

    /// Notes that a person has stopped the turn of a chat, if it has this id, or any without one.
    pub async fn stop_turn(&self, chat: &str, turn: Option<&str>) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        turns::stop(&mut change, self.owner.as_str(), chat, turn).await?;
        change.commit().await
    }

    /// Notes that a turn is continued once more.
    pub async fn resume_turn(&self, chat: &str, turn: &str) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        turns::resume(&mut change, self.owner.as_str(), chat, turn).await?;
        change.commit().await
    }

    async fn put(&self, chat: &str, answer: &Message, pending: Option<&[String]>) -> Result<(), Error> {
        let mut change = self.store.writer.begin().await?;
        let update = sqlx::query("UPDATE chats SET updated_at = ? WHERE owner = ? AND id = ?");
        let update = update.bind(Timestamp::now().as_millisecond()).bind(self.owner.as_str()).bind(chat);
        let chat = ChatId { owner: self.owner.as_str(), id: chat };
        if update.execute(&mut *change).await?.rows_affected() > 0
            && !replace(&mut change, chat, answer).await?
        {
            append(&mut change, chat, answer).await?;
        }
        match pending {
            Some(pending) => {
                turns::note_pending(&mut change, chat.owner, chat.id, &answer.id, pending).await?;
            }
            None => turns::close(&mut change, chat.owner, chat.id, &answer.id).await?,
        }
        change.commit().await
    }
}

/// A chat of any owner, in this file only.
#[derive(Debug, Clone, Copy)]
struct ChatId<'a> {
    owner: &'a str,
    id: &'a str,
}

async fn removal(change: &mut SqliteConnection, chat: ChatId<'_>, what: &Removal) -> Result<(), Error> {
    let delete = match what {
        Removal::Nothing => return Ok(()),
        Removal::From(id) => {
            let delete = "DELETE FROM messages WHERE owner = ?1 AND chat = ?2 AND position >=
                 (SELECT position FROM messages WHERE owner = ?1 AND chat = ?2 AND id = ?3)";
            sqlx::query(delete).bind(chat.owner).bind(chat.id).bind(id)
        }
        Removal::LastAnswer => {
            let delete = "DELETE FROM messages WHERE owner = ?1 AND chat = ?2 AND position >
                 (SELECT MAX(position) FROM messages WHERE owner = ?1 AND chat = ?2 AND role = 'user')";
            sqlx::query(delete).bind(chat.owner).bind(chat.id)
        }
    };
    delete.execute(change).await?;
    Ok(())
}

/// Returns whether there was a message to replace.
async fn replace(change: &mut SqliteConnection, chat: ChatId<'_>, message: &Message) -> Result<bool, Error> {
    let parts = serde_json::to_string(&message.parts)?;
    let update = sqlx::query("UPDATE messages SET parts = ? WHERE owner = ? AND chat = ? AND id = ?");
    let update = update.bind(parts).bind(chat.owner).bind(chat.id).bind(&message.id);
    Ok(update.execute(change).await?.rows_affected() > 0)
}

async fn append(change: &mut SqliteConnection, chat: ChatId<'_>, message: &Message) -> Result<(), Error> {
    let insert = "INSERT INTO messages (owner, chat, position, id, role, parts)
         SELECT ?1, ?2, COALESCE(MAX(position), 0) + 1, ?3, ?4, ?5 FROM messages WHERE owner = ?1 AND chat = ?2";
    let parts = serde_json::to_string(&message.parts)?;
    let insert = sqlx::query(insert).bind(chat.owner).bind(chat.id).bind(&message.id);
    insert.bind(role_name(message.role)).bind(parts).execute(change).await?;
    Ok(())
}

fn parse_cursor(cursor: &str) -> Option<(i64, &str)> {
    let (at, id) = cursor.split_once('_')?;
    Some((at.parse().ok()?, id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::account::UserId;
    use crate::turn::Role;

    async fn store() -> (OwnedChats, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (open(&dir).await, dir)
    }

    async fn open(dir: &tempfile::TempDir) -> OwnedChats {
        Store::open(dir.path()).await.unwrap().chats_of(Owner::Everyone)
    }

    fn answer(id: &str) -> Message {
        Message { id: id.into(), role: Role::Assistant, parts: vec![json!({ "type": "text", "text": id })] }
    }

    async fn add_turn(store: &OwnedChats, chat: &str, id: &str, removal: Removal) {
        let message = Message::of_user(id.into(), id);
        let turn = NewTurn {
            chat,
            title: "t",
            subject: None,
            model: None,
            removal: &removal,
            message: Some(&message),
            open: None,
        };
        store.begin_turn(turn).await.unwrap();
        store.put_answer(chat, &answer(&format!("to {id}"))).await.unwrap();
    }

    async fn ids(store: &OwnedChats, chat: &str) -> Vec<String> {
        store.messages(chat).await.unwrap().into_iter().map(|message| message.id).collect()
    }

    #[tokio::test]
    async fn messages_are_kept_over_a_restart() {
        let (store, dir) = store().await;
        add_turn(&store, "1", "a", Removal::Nothing).await;
        add_turn(&store, "1", "b", Removal::Nothing).await;
        drop(store);
        let store = open(&dir).await;
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b"]);
        assert_eq!(store.messages("1").await.unwrap()[1], answer("to a"));
        let more = Message { parts: vec![json!({ "type": "text", "text": "more" })], ..answer("to b") };
        store.put_answer("1", &more).await.unwrap();
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b"]);
        assert_eq!(store.messages("1").await.unwrap()[3], more);
        assert_eq!(store.chat("1").await.unwrap().unwrap().title, "t");
        assert_eq!(store.chat("2").await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_edit_drops_later_messages_and_a_new_answer_replaces_the_last() {
        let (store, _dir) = store().await;
        for id in ["a", "b", "c"] {
            add_turn(&store, "1", id, Removal::Nothing).await;
        }
        add_turn(&store, "1", "b", Removal::From("b".into())).await;
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b"]);
        add_turn(&store, "1", "d", Removal::From("nowhere".into())).await;
        let again = NewTurn {
            chat: "1",
            title: "",
            subject: None,
            model: Some("m"),
            removal: &Removal::LastAnswer,
            message: None,
            open: None,
        };
        store.begin_turn(again).await.unwrap();
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b", "d"]);
        let chat = store.chat("1").await.unwrap().unwrap();
        assert_eq!((chat.title.as_str(), chat.model.as_deref()), ("t", Some("m")));
    }

    #[tokio::test]
    async fn chats_are_listed_in_pages_without_gaps() {
        let (store, _dir) = store().await;
        for chat in ["1", "2", "3", "4", "5"] {
            add_turn(&store, chat, "a", Removal::Nothing).await;
        }
        add_turn(&store, "2", "b", Removal::Nothing).await;
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.chats(2, cursor.as_deref()).await.unwrap();
            assert!(page.chats.len() <= 2);
            all.extend(page.chats.into_iter().map(|chat| chat.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        all.sort();
        assert_eq!(all, ["1", "2", "3", "4", "5"]);
        assert_eq!(store.chats(10, Some("rubbish")).await.unwrap().chats.len(), 5);
    }

    #[tokio::test]
    async fn a_deleted_chat_has_no_messages_and_accepts_no_answer() {
        let (store, _dir) = store().await;
        add_turn(&store, "1", "a", Removal::Nothing).await;
        assert!(store.change("1", Some("new"), None).await.unwrap());
        store.delete("1").await.unwrap();
        store.delete("1").await.unwrap();
        assert!(!store.change("1", Some("new"), None).await.unwrap());
        store.put_answer("1", &answer("late")).await.unwrap();
        assert!(ids(&store, "1").await.is_empty() && store.chats(9, None).await.unwrap().chats.is_empty());
    }

    #[tokio::test]
    async fn owners_have_chats_of_the_same_id() {
        let (everyone, _dir) = store().await;
        let store = everyone.store.clone();
        let [ann, bob] = [UserId::random(), UserId::random()].map(|id| store.chats_of(Owner::User(id)));
        for (chats, text) in [(&ann, "a"), (&bob, "b")] {
            add_turn(chats, "1", text, Removal::Nothing).await;
        }
        assert_eq!(ids(&ann, "1").await, ["a", "to a"]);
        assert_eq!(ids(&bob, "1").await, ["b", "to b"]);
        assert_eq!(everyone.chat("1").await.unwrap(), None);
        bob.delete("1").await.unwrap();
        assert_eq!(ids(&ann, "1").await, ["a", "to a"]);
        assert!(bob.chats(9, None).await.unwrap().chats.is_empty());
        assert!(!bob.change("1", Some("new"), None).await.unwrap());
        bob.put_answer("1", &answer("late")).await.unwrap();
        assert_eq!((ids(&ann, "1").await.len(), ids(&bob, "1").await.len()), (2, 0));
    }
}
