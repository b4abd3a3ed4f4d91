//! Projects and their tokens.

use http::Method;
use sandbox_api::audit::{AuditList, ListAudit};
use sandbox_api::project::{
    ChildToken, CreateChildToken, CreateProject, CreateTicket, CreateToken, Project, ProjectList,
    RevokeSubject, Ticket, TokenCreated, TokenList, WhoAmI,
};
use sandbox_api::quota::{ChangeProject, ProjectUsage, Quotas};
use sandbox_api::{Done, TokenId};

use crate::deadlines::{ACT, LOOK};
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Returns whom the client's token belongs to, and what it permits.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        json(self.request(Method::GET, "/v1/whoami"), LOOK).await
    }

    /// Makes a child token of the client's token. Safe to repeat: nothing about one is stored.
    pub async fn create_child_token(&self, request: &CreateChildToken) -> Result<ChildToken, Error> {
        json(self.post("/v1/child-tokens", request), LOOK).await
    }

    /// Makes a ticket for one WebSocket. Not safe to repeat: each call makes another one.
    pub async fn create_ticket(&self, path: &str) -> Result<Ticket, Error> {
        json(self.post("/v1/tickets", &CreateTicket { path: path.to_owned() }), LOOK).await
    }

    /// Revokes the JSON Web Tokens and the child tokens of a subject that were issued until now. Safe to repeat.
    pub async fn revoke_subject(&self, project: &str, subject: &str) -> Result<Done, Error> {
        let body = RevokeSubject { subject: subject.to_owned() };
        json(self.post(&format!("/v1/projects/{project}/subjects:revoke"), &body), ACT).await
    }

    /// Returns a page of projects, in the order of their names.
    pub async fn projects(&self, cursor: Option<&str>) -> Result<ProjectList, Error> {
        let query: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
        json(self.request(Method::GET, "/v1/projects").query(&query), LOOK).await
    }

    /// Returns a page of the audit record, the newest lines first.
    pub async fn audit(&self, query: &ListAudit) -> Result<AuditList, Error> {
        json(self.request(Method::GET, "/v1/audit").query(query), LOOK).await
    }

    /// Creates a project. Safe to repeat.
    pub async fn create_project(&self, name: &str) -> Result<Project, Error> {
        let body = CreateProject { name: name.to_owned() };
        json(self.post("/v1/projects", &body), ACT).await
    }

    /// Returns a project with its quotas.
    pub async fn project(&self, project: &str) -> Result<Project, Error> {
        json(self.request(Method::GET, &format!("/v1/projects/{project}")), LOOK).await
    }

    /// Replaces the quotas of a project. Safe to repeat.
    pub async fn set_quotas(&self, project: &str, quotas: &Quotas) -> Result<Project, Error> {
        let body = ChangeProject { quotas: quotas.clone() };
        json(self.request(Method::PUT, &format!("/v1/projects/{project}")).json(&body), ACT).await
    }

    /// Returns what a project uses, now and per day.
    pub async fn project_usage(&self, project: &str) -> Result<ProjectUsage, Error> {
        json(self.request(Method::GET, &format!("/v1/projects/{project}/usage")), LOOK).await
    }

    /// Returns a page of tokens of a project, in the order of their ids.
    pub async fn tokens(&self, project: &str, cursor: Option<&str>) -> Result<TokenList, Error> {
        let path = format!("/v1/projects/{project}/tokens");
        let query: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
        json(self.request(Method::GET, &path).query(&query), LOOK).await
    }

    /// Creates a token of a project. Not safe to repeat: each call creates another one.
    pub async fn create_token(&self, project: &str, request: &CreateToken) -> Result<TokenCreated, Error> {
        let path = format!("/v1/projects/{project}/tokens");
        json(self.post(&path, request), ACT).await
    }

    /// Revokes a token. Safe to repeat.
    pub async fn revoke_token(&self, project: &str, token: &TokenId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &format!("/v1/projects/{project}/tokens/{token}")), ACT).await
    }
}
