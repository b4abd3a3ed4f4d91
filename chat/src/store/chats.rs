//! Chats and their messages.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::SqliteConnection;

use super::row::{ChatRow, MessageRow, role_name};
use super::{Error, Store};
use crate::turn::Message;

/// A chat without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// As the page chose it.
    pub id: String,
    /// For the list.
    pub title: String,
    /// The model that was asked last, where one was.
    pub model: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said in it.
    pub updated_at: Timestamp,
}

/// Some chats, the one that changed last first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatPage {
    /// So many as were asked for, or fewer.
    pub chats: Vec<Chat>,
    /// Where those that follow begin; none where none follow.
    pub next_cursor: Option<String>,
}

/// What the person said, to be kept before it is answered.
#[derive(Debug, Clone)]
pub struct NewTurn<'a> {
    /// Of the chat, which is made where there is none.
    pub chat: &'a str,
    /// Of a chat that is made.
    pub title: &'a str,
    /// That is asked, where one is.
    pub model: Option<&'a str>,
    /// What goes first.
    pub cut: &'a Cut,
    /// What was said; none where an answer is asked for anew.
    pub message: Option<&'a Message>,
}

/// What of a chat goes before a new turn.
#[derive(Debug, Clone)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// This message, where it is there, and all that follow.
    From(String),
    /// All that follow the last message of the person's.
    LastAnswer,
}

const CHAT: &str = "SELECT id, title, model, created_at, updated_at FROM chats";

impl Store {
    /// Chats by their last change. `cursor` is of the page before; what is none begins at the start.
    pub async fn chats(&self, limit: u32, cursor: Option<&str>) -> Result<ChatPage, Error> {
        let (before, id) = cursor.and_then(parse_cursor).unwrap_or((i64::MAX, ""));
        let select = format!(
            "{CHAT} WHERE (updated_at, id) < (?, ?) OR ? = '' ORDER BY updated_at DESC, id DESC LIMIT ?"
        );
        // One more than is asked for tells whether there are others.
        let rows: Vec<ChatRow> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(before)
            .bind(id)
            .bind(id)
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.pool)
            .await?;
        let mut chats: Vec<Chat> = rows.into_iter().map(Chat::from).collect();
        let has_more = chats.len() > limit as usize;
        chats.truncate(limit as usize);
        let last = chats.last().filter(|_| has_more);
        let next_cursor = last.map(|chat| format!("{}_{}", chat.updated_at.as_millisecond(), chat.id));
        Ok(ChatPage { chats, next_cursor })
    }

    /// One chat, where there is one.
    pub async fn chat(&self, id: &str) -> Result<Option<Chat>, Error> {
        let select = format!("{CHAT} WHERE id = ?");
        let row: Option<ChatRow> =
            sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(id).fetch_optional(&self.pool).await?;
        Ok(row.map(Chat::from))
    }

    /// Whether there is such a chat.
    pub async fn has_chat(&self, id: &str) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM chats WHERE id = ?)";
        Ok(sqlx::query_scalar(select).bind(id).fetch_one(&self.pool).await?)
    }

    /// A chat's messages, oldest first.
    pub async fn messages(&self, chat: &str) -> Result<Vec<Message>, Error> {
        let select = "SELECT id, role, parts FROM messages WHERE chat = ? ORDER BY position";
        let rows: Vec<MessageRow> = sqlx::query_as(select).bind(chat).fetch_all(&self.pool).await?;
        rows.into_iter().map(Message::try_from).collect()
    }

    /// Gives a chat a title; whether there is one.
    pub async fn rename(&self, chat: &str, title: &str) -> Result<bool, Error> {
        let mut change = self.writer.begin().await?;
        let update = sqlx::query("UPDATE chats SET title = ? WHERE id = ?").bind(title).bind(chat);
        let renamed = update.execute(&mut *change).await?.rows_affected() > 0;
        change.commit().await?;
        Ok(renamed)
    }

    /// Removes a chat with its messages. Safe to repeat.
    pub async fn delete(&self, chat: &str) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        sqlx::query("DELETE FROM chats WHERE id = ?").bind(chat).execute(&mut *change).await?;
        change.commit().await
    }

    /// Keeps what begins a turn, all of it or nothing.
    pub async fn begin_turn(&self, turn: NewTurn<'_>) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        let now = Timestamp::now().as_millisecond();
        let upsert =
            "INSERT INTO chats (id, title, model, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)
             ON CONFLICT (id) DO UPDATE SET updated_at = ?4, model = COALESCE(?3, model)";
        let upsert = sqlx::query(upsert).bind(turn.chat).bind(turn.title).bind(turn.model).bind(now);
        upsert.execute(&mut *change).await?;
        cut(&mut change, turn.chat, turn.cut).await?;
        if let Some(message) = turn.message {
            append(&mut change, turn.chat, message).await?;
        }
        change.commit().await
    }

    /// Keeps an answer, in place of what was kept of it before. Where its chat is gone, so is the answer.
    pub async fn put_answer(&self, chat: &str, answer: &Message) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        let update = sqlx::query("UPDATE chats SET updated_at = ? WHERE id = ?");
        let update = update.bind(Timestamp::now().as_millisecond()).bind(chat).execute(&mut *change);
        if update.await?.rows_affected() > 0 && !replace(&mut change, chat, answer).await? {
            append(&mut change, chat, answer).await?;
        }
        change.commit().await
    }
}

async fn cut(change: &mut SqliteConnection, chat: &str, what: &Cut) -> Result<(), Error> {
    let delete = match what {
        Cut::Nothing => return Ok(()),
        Cut::From(id) => {
            let delete = "DELETE FROM messages WHERE chat = ?1 AND position >=
                 (SELECT position FROM messages WHERE chat = ?1 AND id = ?2)";
            sqlx::query(delete).bind(chat).bind(id)
        }
        Cut::LastAnswer => {
            let delete = "DELETE FROM messages WHERE chat = ?1 AND position >
                 (SELECT MAX(position) FROM messages WHERE chat = ?1 AND role = 'user')";
            sqlx::query(delete).bind(chat)
        }
    };
    delete.execute(change).await?;
    Ok(())
}

/// Whether there was one to be replaced.
async fn replace(change: &mut SqliteConnection, chat: &str, message: &Message) -> Result<bool, Error> {
    let parts = serde_json::to_string(&message.parts)?;
    let update = sqlx::query("UPDATE messages SET parts = ? WHERE chat = ? AND id = ?");
    let replaced = update.bind(parts).bind(chat).bind(&message.id).execute(change).await?;
    Ok(replaced.rows_affected() > 0)
}

async fn append(change: &mut SqliteConnection, chat: &str, message: &Message) -> Result<(), Error> {
    let insert = "INSERT INTO messages (chat, position, id, role, parts)
         SELECT ?1, COALESCE(MAX(position), 0) + 1, ?2, ?3, ?4 FROM messages WHERE chat = ?1";
    let parts = serde_json::to_string(&message.parts)?;
    let insert = sqlx::query(insert).bind(chat).bind(&message.id).bind(role_name(message.role)).bind(parts);
    insert.execute(change).await?;
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
    use crate::turn::Role;

    async fn store() -> (Store, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Store::open(dir.path()).await.unwrap(), dir)
    }

    fn answer(id: &str) -> Message {
        Message { id: id.into(), role: Role::Assistant, parts: vec![json!({ "type": "text", "text": id })] }
    }

    async fn say(store: &Store, chat: &str, id: &str, cut: Cut) {
        let message = Message::of_person(id.into(), id);
        let turn = NewTurn { chat, title: "t", model: None, cut: &cut, message: Some(&message) };
        store.begin_turn(turn).await.unwrap();
        store.put_answer(chat, &answer(&format!("to {id}"))).await.unwrap();
    }

    async fn ids(store: &Store, chat: &str) -> Vec<String> {
        store.messages(chat).await.unwrap().into_iter().map(|message| message.id).collect()
    }

    #[tokio::test]
    async fn what_was_said_is_there_after_a_restart() {
        let (store, dir) = store().await;
        say(&store, "1", "a", Cut::Nothing).await;
        say(&store, "1", "b", Cut::Nothing).await;
        drop(store);
        let store = Store::open(dir.path()).await.unwrap();
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
    async fn an_edit_drops_what_followed_and_a_new_answer_the_one_before() {
        let (store, _dir) = store().await;
        for id in ["a", "b", "c"] {
            say(&store, "1", id, Cut::Nothing).await;
        }
        say(&store, "1", "b", Cut::From("b".into())).await;
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b"]);
        say(&store, "1", "d", Cut::From("nowhere".into())).await;
        let again = NewTurn { chat: "1", title: "", model: Some("m"), cut: &Cut::LastAnswer, message: None };
        store.begin_turn(again).await.unwrap();
        assert_eq!(ids(&store, "1").await, ["a", "to a", "b", "to b", "d"]);
        let chat = store.chat("1").await.unwrap().unwrap();
        assert_eq!((chat.title.as_str(), chat.model.as_deref()), ("t", Some("m")));
    }

    #[tokio::test]
    async fn chats_are_listed_by_their_last_change_page_by_page() {
        let (store, _dir) = store().await;
        for chat in ["1", "2", "3", "4", "5"] {
            say(&store, chat, "a", Cut::Nothing).await;
        }
        say(&store, "2", "b", Cut::Nothing).await;
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
    async fn a_deleted_chat_is_gone_with_its_messages_and_takes_no_answer() {
        let (store, _dir) = store().await;
        say(&store, "1", "a", Cut::Nothing).await;
        assert!(store.rename("1", "new").await.unwrap());
        store.delete("1").await.unwrap();
        store.delete("1").await.unwrap();
        assert!(!store.rename("1", "new").await.unwrap());
        store.put_answer("1", &answer("late")).await.unwrap();
        assert!(ids(&store, "1").await.is_empty() && store.chats(9, None).await.unwrap().chats.is_empty());
    }
}
