//! Turns whose answer is not complete, so that the next start of the app can continue them.

use sqlx::{Row, SqliteConnection};

use super::Store;
use super::error::Error;
use crate::account::Owner;

/// A turn whose answer is not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenTurn {
    /// Id of the answer.
    pub id: String,
    /// The model that answers. `None` for a command of the user.
    pub model: Option<String>,
    /// Id of the session that has begun it. `None` in an app without accounts.
    pub session: Option<String>,
    /// Whether it can use tools.
    pub has_tools: bool,
    /// Ids of the calls that have begun and not returned.
    pub pending: Vec<String>,
    /// Whether a person has stopped it.
    pub is_stopped: bool,
    /// How often it was continued since it was last stored.
    pub resumed: u32,
}

impl Store {
    /// Returns all turns whose answer is not complete, with the owner and id of their chats. Rows that cannot be read are left
    /// alone.
    pub async fn open_turns(&self) -> Result<Vec<(Owner, String, OpenTurn)>, Error> {
        let select =
            "SELECT owner, chat, id, model, session, has_tools, pending, is_stopped, resumed FROM turns";
        let rows = sqlx::query(select).fetch_all(&self.pool).await?;
        let turn = |row: sqlx::sqlite::SqliteRow| {
            let owner = match row.try_get::<String, _>("owner")?.as_str() {
                "" => Owner::Everyone,
                user => Owner::User(user.parse().map_err(|_| Error::BadAccount)?),
            };
            let turn = OpenTurn {
                id: row.try_get("id")?,
                model: row.try_get("model")?,
                session: row.try_get("session")?,
                has_tools: row.try_get("has_tools")?,
                pending: serde_json::from_str(row.try_get("pending")?)?,
                is_stopped: row.try_get("is_stopped")?,
                resumed: row.try_get("resumed")?,
            };
            Ok((owner, row.try_get("chat")?, turn))
        };
        let readable = |row| {
            let turn: Result<_, Error> = turn(row);
            turn.inspect_err(|error| tracing::error!(%error, "a turn in the database cannot be read")).ok()
        };
        Ok(rows.into_iter().filter_map(readable).collect())
    }
}

/// Notes that a turn has begun, in place of an earlier one of the chat.
pub(super) async fn open(
    change: &mut SqliteConnection,
    owner: &str,
    chat: &str,
    turn: &OpenTurn,
) -> Result<(), Error> {
    let insert = "INSERT OR REPLACE INTO turns (owner, chat, id, model, session, has_tools, pending)
         VALUES (?, ?, ?, ?, ?, ?, ?)";
    let insert = sqlx::query(insert).bind(owner).bind(chat).bind(&turn.id).bind(&turn.model);
    let insert = insert.bind(&turn.session).bind(turn.has_tools).bind(serde_json::to_string(&turn.pending)?);
    insert.execute(change).await?;
    Ok(())
}

/// Notes which calls of a turn have not returned.
pub(super) async fn note_pending(
    change: &mut SqliteConnection,
    owner: &str,
    chat: &str,
    turn: &str,
    pending: &[String],
) -> Result<(), Error> {
    let update =
        sqlx::query("UPDATE turns SET pending = ?, resumed = 0 WHERE owner = ? AND chat = ? AND id = ?");
    let update = update.bind(serde_json::to_string(pending)?).bind(owner).bind(chat).bind(turn);
    update.execute(change).await?;
    Ok(())
}

/// Notes that a person has stopped the turn of a chat, if it has this id, or any without one.
pub(super) async fn stop(
    change: &mut SqliteConnection,
    owner: &str,
    chat: &str,
    turn: Option<&str>,
) -> Result<(), Error> {
    let update = "UPDATE turns SET is_stopped = 1 WHERE owner = ?1 AND chat = ?2 AND (?3 IS NULL OR id = ?3)";
    sqlx::query(update).bind(owner).bind(chat).bind(turn).execute(change).await?;
    Ok(())
}

/// Notes that a turn is continued once more.
pub(super) async fn resume(
    change: &mut SqliteConnection,
    owner: &str,
    chat: &str,
    turn: &str,
) -> Result<(), Error> {
    let update = "UPDATE turns SET resumed = resumed + 1 WHERE owner = ? AND chat = ? AND id = ?";
    sqlx::query(update).bind(owner).bind(chat).bind(turn).execute(change).await?;
    Ok(())
}

/// Notes that a turn has ended.
pub(super) async fn close(
    change: &mut SqliteConnection,
    owner: &str,
    chat: &str,
    turn: &str,
) -> Result<(), Error> {
    let delete = sqlx::query("DELETE FROM turns WHERE owner = ? AND chat = ? AND id = ?");
    delete.bind(owner).bind(chat).bind(turn).execute(change).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{NewTurn, OwnedChats, Removal};
    use super::*;
    use crate::account::UserId;
    use crate::turn::{Message, Role};

    async fn begin(chats: &OwnedChats, chat: &str, open: &OpenTurn) {
        let message = Message::of_user("q".into(), "question");
        let turn = NewTurn {
            chat,
            title: "t",
            subject: None,
            model: None,
            removal: &Removal::Nothing,
            message: Some(&message),
            open: Some(open),
        };
        chats.begin_turn(turn).await.unwrap();
    }

    #[tokio::test]
    async fn a_turn_is_open_until_its_answer_is_complete_or_its_chat_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).await.unwrap();
        let ann = Owner::User(UserId::random());
        let (chats, others) = (store.chats_of(ann.clone()), store.chats_of(Owner::Everyone));
        let first = OpenTurn {
            id: "a".into(),
            model: Some("openai/m".into()),
            session: Some("ses_1".into()),
            has_tools: true,
            ..OpenTurn::default()
        };
        begin(&chats, "1", &first).await;
        begin(&others, "1", &OpenTurn { id: "b".into(), ..OpenTurn::default() }).await;
        let answer = Message { id: "a".into(), role: Role::Assistant, parts: Vec::new() };
        let pending = vec!["call".to_owned()];
        chats.put_unfinished("1", &answer, &pending).await.unwrap();
        let open = store.open_turns().await.unwrap();
        assert_eq!(open.len(), 2);
        assert!(open.contains(&(ann, "1".into(), OpenTurn { pending, ..first })), "{open:?}");
        chats.resume_turn("1", "a").await.unwrap();
        chats.stop_turn("1", Some("other")).await.unwrap();
        let of_ann = async || {
            let open = store.open_turns().await.unwrap();
            open.into_iter().find(|(owner, ..)| *owner != Owner::Everyone).unwrap().2
        };
        assert_eq!((of_ann().await.resumed, of_ann().await.is_stopped), (1, false));
        chats.put_unfinished("1", &answer, &[]).await.unwrap();
        chats.stop_turn("1", None).await.unwrap();
        assert_eq!((of_ann().await.resumed, of_ann().await.is_stopped), (0, true));
        chats.put_answer("1", &answer).await.unwrap();
        let [(Owner::Everyone, chat, turn)] = &*store.open_turns().await.unwrap() else {
            panic!("one is left")
        };
        assert_eq!((chat.as_str(), turn.id.as_str()), ("1", "b"));
        others.abandon_turn("1", "other").await.unwrap();
        assert_eq!(store.open_turns().await.unwrap().len(), 1);
        others.delete("1").await.unwrap();
        assert!(store.open_turns().await.unwrap().is_empty());
        begin(&chats, "1", &OpenTurn { id: "c".into(), ..OpenTurn::default() }).await;
        begin(&chats, "1", &OpenTurn { id: "d".into(), ..OpenTurn::default() }).await;
        assert_eq!(store.open_turns().await.unwrap().len(), 1, "one of a chat");
        chats.abandon_turn("1", "d").await.unwrap();
        assert!(store.open_turns().await.unwrap().is_empty());
    }
}
