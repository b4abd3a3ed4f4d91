//! Commands whose script ends with a pipeline of which every stage is reported.
//!
//! The script itself decides what runs. It only gets a relay after each operator of its last pipeline
//! ([`crate::stage_relay`]), and a trap before its first line, by which bash writes the exit codes of that pipeline when
//! it exits. If the script sets a trap for `EXIT` of its own, there are no exit codes.

use std::path::PathBuf;
use std::sync::Arc;

use agent_protocol::v1;
use prost::Message as _;
use rustix::io::Errno;

use crate::limits::MAX_STAGES;
use crate::secrets::{Redactor, Secrets};
use crate::stage_memory::{KeptOutput, StageMemory};
use crate::stage_relay;

/// The stages of a command's pipeline, and what is recorded of them.
#[derive(Debug)]
pub(crate) struct Stages {
    stages: Vec<v1::PipelineStage>,
    memory: StageMemory,
    /// The agent's program.
    program: PathBuf,
}

impl Stages {
    /// The stages, which must be valid ([`check`]).
    pub(crate) fn new(stages: Vec<v1::PipelineStage>) -> Result<Self, Errno> {
        let program = std::env::current_exe().map_err(|_| Errno::NOENT)?;
        let memory = StageMemory::new(stages.len() - 1)?;
        Ok(Self { stages, memory, program })
    }

    /// The memory, which the command must inherit.
    pub(crate) fn memory(&self) -> &StageMemory {
        &self.memory
    }

    /// The script with what reports its stages.
    pub(crate) fn instrumented(&self, script: &str) -> String {
        let number = self.memory.number();
        // BASH_ENV (bash(1)) may have set a trap before.
        let mut text = format!(
            "if [[ -z ${{BASH_ENV-}} || -z $(trap -p EXIT) ]]; then trap '{{ builtin printf \"%s \" \
             \"${{PIPESTATUS[@]}}\" >&{number} || :; }} 2>/dev/null' EXIT; fi; "
        );
        let program = self.program.to_string_lossy().replace('\'', r"'\''");
        let mut at = 0;
        for (relay, stage) in self.stages.iter().enumerate().filter(|(_, stage)| stage.next > 0) {
            let next = stage.next as usize;
            let name = stage_relay::SUBCOMMAND;
            text.push_str(&script[at..next]);
            text.push_str(&format!(" {{ exec '{program}' {name} {number} {relay}; }} 2>/dev/null |"));
            at = next;
        }
        text.push_str(&script[at..]);
        text
    }

    /// The encoded reports, in the order of the stages. None if bash has not started the pipeline. Only a command that
    /// exited by itself has exit codes, because bash may otherwise have written those of an earlier pipeline.
    pub(crate) fn reports(&self, has_exited: bool, secrets: Option<&Arc<Secrets>>) -> Vec<Vec<u8>> {
        let relays = self.stages.len() - 1;
        let outputs: Vec<_> = (0..relays).map(|relay| self.memory.output(relay)).collect();
        if outputs.iter().all(Option::is_none) {
            return Vec::new();
        }
        let codes = self.memory.exit_codes(self.stages.len() + relays).filter(|_| has_exited);
        let outputs = outputs.into_iter().chain([None]);
        let stages = self.stages.iter().zip(outputs).enumerate();
        stages
            .map(|(index, (stage, output))| {
                // Between the codes of two stages is that of a relay.
                let exit_code = codes.as_ref().map(|codes| codes[2 * index]);
                report(stage, exit_code, output, secrets).encode_to_vec()
            })
            .collect()
    }
}

fn report(
    stage: &v1::PipelineStage,
    exit_code: Option<i32>,
    output: Option<KeptOutput>,
    secrets: Option<&Arc<Secrets>>,
) -> v1::StageReport {
    let command = redacted(stage.command.as_bytes(), false, secrets);
    let output_bytes = output.as_ref().map(|output| output.bytes);
    let output = output.map(|output| redacted(&output.data, output.is_cut(), secrets)).unwrap_or_default();
    v1::StageReport {
        command: String::from_utf8_lossy(&command).into_owned(),
        exit_code,
        output: output.into(),
        output_bytes,
    }
}

/// Checks that the script can be cut at the stages' positions.
pub(crate) fn check(script: &str, stages: &[v1::PipelineStage]) -> Result<(), String> {
    if stages.len() < 2 || stages.len() > MAX_STAGES {
        return Err(format!("must be 2 to {MAX_STAGES}"));
    }
    let others = &stages[..stages.len() - 1];
    let is_after_operator = |at: u32| {
        let before = (at as usize).checked_sub(1).and_then(|before| script.as_bytes().get(before));
        matches!(before, Some(b'|' | b'&'))
    };
    let is_ascending = others.windows(2).all(|pair| pair[0].next < pair[1].next);
    if stages[others.len()].next != 0
        || !is_ascending
        || !others.iter().all(|stage| is_after_operator(stage.next))
    {
        return Err("must have the positions after the operators of a pipeline".into());
    }
    Ok(())
}

/// Replaces secret values. With `is_cut`, what may be the beginning of one at the end of the data is dropped.
fn redacted(data: &[u8], is_cut: bool, secrets: Option<&Arc<Secrets>>) -> Vec<u8> {
    let Some(secrets) = secrets else {
        return data.to_vec();
    };
    let mut redactor = Redactor::new(Arc::clone(secrets));
    let mut shown = redactor.push(data);
    if !is_cut {
        shown.extend(redactor.finish());
    }
    shown
}
