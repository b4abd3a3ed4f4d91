//! The calls of the engine's API that this crate uses.
//!
//! Their futures are boxed so that only this crate compiles them. The compiler generates the code of an async function in
//! each crate that polls it, together with all that it awaits, and bollard reads large types.

use std::io;
use std::time::Duration;

use bollard::Docker;
use bollard::container::{AttachContainerResults, PathStatResponse};
use bollard::errors::Error;
use bollard::exec::{CreateExecResults, StartExecOptions, StartExecResults};
use bollard::models::{
    BuildInfo, ContainerCreateBody, ContainerCreateResponse, ContainerInspectResponse,
    ContainerStatsResponse, ContainerSummary, CreateImageInfo, EventMessage, ExecConfig, ImageInspect,
    Network, NetworkCreateRequest, NetworkCreateResponse, NetworkInspect, Plugin, SystemInfo, SystemVersion,
    Volume, VolumeCreateRequest, VolumeListResponse,
};
use bollard::query_parameters as query;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use futures::stream::{BoxStream, StreamExt};

/// The engine's response to one call.
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// A response that consists of several parts.
pub(crate) type Parts<'a, T> = BoxStream<'a, Result<T, Error>>;

/// The content of a request that is not in memory.
pub(crate) type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// A client of the engine's API. Its functions are those of [`Docker`] with the same names.
#[derive(Debug, Clone)]
pub(crate) struct DockerApi {
    docker: Docker,
}

impl DockerApi {
    pub(crate) fn new(docker: Docker) -> Self {
        Self { docker }
    }

    /// The same client with another deadline for its calls.
    pub(crate) fn with_timeout(&self, deadline: Duration) -> Self {
        Self::new(self.docker.clone().with_timeout(deadline))
    }

    /// Lowers the version of the API to the engine's, if that is older.
    pub(crate) fn negotiate_version(&self) -> Answer<'static, ()> {
        self.docker.clone().negotiate_version().map_ok(drop).boxed()
    }

    pub(crate) fn info(&self) -> Answer<'_, SystemInfo> {
        self.docker.info().boxed()
    }

    pub(crate) fn version(&self) -> Answer<'_, SystemVersion> {
        self.docker.version().boxed()
    }

    pub(crate) fn inspect_container<'a>(&'a self, name: &'a str) -> Answer<'a, ContainerInspectResponse> {
        self.docker.inspect_container(name, None::<query::InspectContainerOptions>).boxed()
    }

    pub(crate) fn list_containers(
        &self,
        options: query::ListContainersOptions,
    ) -> Answer<'_, Vec<ContainerSummary>> {
        self.docker.list_containers(Some(options)).boxed()
    }

    pub(crate) fn create_container(
        &self,
        options: query::CreateContainerOptions,
        body: ContainerCreateBody,
    ) -> Answer<'_, ContainerCreateResponse> {
        self.docker.create_container(Some(options), body).boxed()
    }

    pub(crate) fn start_container<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.docker.start_container(name, None::<query::StartContainerOptions>).boxed()
    }

    pub(crate) fn stop_container<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.docker.stop_container(name, None::<query::StopContainerOptions>).boxed()
    }

    pub(crate) fn restart_container<'a>(
        &'a self,
        name: &'a str,
        options: query::RestartContainerOptions,
    ) -> Answer<'a, ()> {
        self.docker.restart_container(name, Some(options)).boxed()
    }

    pub(crate) fn unpause_container<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.docker.unpause_container(name).boxed()
    }

    pub(crate) fn rename_container<'a>(
        &'a self,
        name: &'a str,
        options: query::RenameContainerOptions,
    ) -> Answer<'a, ()> {
        self.docker.rename_container(name, options).boxed()
    }

    pub(crate) fn remove_container<'a>(
        &'a self,
        name: &'a str,
        options: query::RemoveContainerOptions,
    ) -> Answer<'a, ()> {
        self.docker.remove_container(name, Some(options)).boxed()
    }

    pub(crate) fn attach_container<'a>(
        &'a self,
        name: &'a str,
        options: query::AttachContainerOptions,
    ) -> Answer<'a, AttachContainerResults> {
        self.docker.attach_container(name, Some(options)).boxed()
    }

    pub(crate) fn get_container_archive_info<'a>(
        &'a self,
        name: &'a str,
        options: query::ContainerArchiveInfoOptions,
    ) -> Answer<'a, PathStatResponse> {
        self.docker.get_container_archive_info(name, Some(options)).boxed()
    }

    pub(crate) fn upload_to_container<'a>(
        &'a self,
        name: &'a str,
        options: query::UploadToContainerOptions,
        tar: Bytes,
    ) -> Answer<'a, ()> {
        self.docker.upload_to_container(name, Some(options), bollard::body_full(tar)).boxed()
    }

    /// Like [`Self::upload_to_container`], for an archive that is not in memory.
    pub(crate) fn stream_to_container<'a>(
        &'a self,
        name: &'a str,
        options: query::UploadToContainerOptions,
        tar: ByteStream,
    ) -> Answer<'a, ()> {
        self.docker.upload_to_container(name, Some(options), bollard::body_try_stream(tar)).boxed()
    }

    pub(crate) fn create_exec<'a>(
        &'a self,
        container: &'a str,
        config: ExecConfig,
    ) -> Answer<'a, CreateExecResults> {
        self.docker.create_exec(container, config).boxed()
    }

    pub(crate) fn start_exec<'a>(
        &'a self,
        exec: &'a str,
        options: StartExecOptions,
    ) -> Answer<'a, StartExecResults> {
        self.docker.start_exec(exec, Some(options)).boxed()
    }

    pub(crate) fn inspect_image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInspect> {
        self.docker.inspect_image(name).boxed()
    }

    pub(crate) fn create_volume(&self, request: VolumeCreateRequest) -> Answer<'_, Volume> {
        self.docker.create_volume(request).boxed()
    }

    pub(crate) fn inspect_volume<'a>(&'a self, name: &'a str) -> Answer<'a, Volume> {
        self.docker.inspect_volume(name).boxed()
    }

    pub(crate) fn list_volumes(&self, options: query::ListVolumesOptions) -> Answer<'_, VolumeListResponse> {
        self.docker.list_volumes(Some(options)).boxed()
    }

    pub(crate) fn remove_volume<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.docker.remove_volume(name, None::<query::RemoveVolumeOptions>).boxed()
    }

    pub(crate) fn create_network(&self, request: NetworkCreateRequest) -> Answer<'_, NetworkCreateResponse> {
        self.docker.create_network(request).boxed()
    }

    pub(crate) fn inspect_network<'a>(&'a self, name: &'a str) -> Answer<'a, NetworkInspect> {
        self.docker.inspect_network(name, None).boxed()
    }

    pub(crate) fn list_networks(&self, options: query::ListNetworksOptions) -> Answer<'_, Vec<Network>> {
        self.docker.list_networks(Some(options)).boxed()
    }

    pub(crate) fn remove_network<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.docker.remove_network(name).boxed()
    }

    pub(crate) fn create_plugin(&self, options: query::CreatePluginOptions, tar: Bytes) -> Answer<'_, ()> {
        self.docker.create_plugin(options, bollard::body_full(tar)).boxed()
    }

    pub(crate) fn enable_plugin<'a>(
        &'a self,
        name: &'a str,
        options: query::EnablePluginOptions,
    ) -> Answer<'a, ()> {
        self.docker.enable_plugin(name, Some(options)).boxed()
    }

    pub(crate) fn disable_plugin<'a>(
        &'a self,
        name: &'a str,
        options: query::DisablePluginOptions,
    ) -> Answer<'a, ()> {
        self.docker.disable_plugin(name, Some(options)).boxed()
    }

    pub(crate) fn list_plugins(&self, options: query::ListPluginsOptions) -> Answer<'_, Vec<Plugin>> {
        self.docker.list_plugins(Some(options)).boxed()
    }

    pub(crate) fn remove_plugin<'a>(&'a self, name: &'a str) -> Answer<'a, Plugin> {
        self.docker.remove_plugin(name, None::<query::RemovePluginOptions>).boxed()
    }

    pub(crate) fn stats(
        &self,
        name: &str,
        options: query::StatsOptions,
    ) -> Parts<'static, ContainerStatsResponse> {
        self.docker.stats(name, Some(options)).boxed()
    }

    pub(crate) fn events(&self, options: query::EventsOptions) -> Parts<'static, EventMessage> {
        self.docker.events(Some(options)).boxed()
    }

    pub(crate) fn create_image(
        &self,
        options: query::CreateImageOptions,
        archive: Option<ByteStream>,
    ) -> Parts<'static, CreateImageInfo> {
        self.docker.create_image(Some(options), archive.map(bollard::body_try_stream), None).boxed()
    }

    pub(crate) fn build_image(
        &self,
        options: query::BuildImageOptions,
        context: Bytes,
    ) -> Parts<'_, BuildInfo> {
        self.docker.build_image(options, None, Some(bollard::body_full(context))).boxed()
    }

    pub(crate) fn download_from_container(
        &self,
        name: &str,
        options: query::DownloadFromContainerOptions,
    ) -> Parts<'static, Bytes> {
        self.docker.download_from_container(name, Some(options)).boxed()
    }
}
