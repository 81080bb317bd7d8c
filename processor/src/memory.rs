//! What a process may take of memory, and how it is divided. One budget, which an operator names (`--memory-budget`):
//! three quarters for spaces that are open, an eighth for blocks of tables that were read, an eighth for what is gathered
//! before it is written as a table; the last two are shared by the log and the states of all partitions.

use recant_eventlog::embedded;
use recant_projections::{fold::Forms, store::settings};

const MIB: usize = 1 << 20;

/// Less makes RocksDB write tables of a few rows.
const WRITE_BUFFERS_MIN: usize = 16 * MIB;
const BLOCKS_MIN: usize = 8 * MIB;

/// A budget, divided.
#[derive(Clone)]
pub struct Memory {
    /// For the spaces of all partitions.
    pub spaces_bytes: usize,
    /// For the states of all partitions, and the log.
    shared: settings::Buffers,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Memory").field("spaces_bytes", &self.spaces_bytes).finish_non_exhaustive()
    }
}

impl Default for Memory {
    /// As much as one partition takes if it is told nothing.
    fn default() -> Self {
        Memory::within(Forms::default().memory_budget_bytes)
    }
}

impl Memory {
    /// Divides a budget.
    pub fn within(budget_bytes: usize) -> Memory {
        let eighth = budget_bytes / 8;
        Memory {
            spaces_bytes: budget_bytes - 2 * eighth,
            shared: settings::Buffers::within(eighth.max(BLOCKS_MIN), eighth.max(WRITE_BUFFERS_MIN)),
        }
    }

    /// What the state of a partition shares.
    pub fn of_state(&self) -> &settings::Buffers {
        &self.shared
    }

    /// What the embedded log shares.
    pub fn of_log(&self) -> embedded::Buffers {
        embedded::Buffers { blocks: self.shared.blocks.clone(), write_buffers: self.shared.write_buffers.clone() }
    }
}
