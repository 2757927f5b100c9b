-- Base tables. All of them only grow: no row is updated or deleted, no foreign keys (an archived control may be
-- referenced by any number of rows). Times are UTC without zone. Text columns marked JSON hold JSON. Ledger tables
-- (with `seq`) mirror records/<table>.jsonl line for line; run_records, samples and rounds mirror
-- records/<run_id>.parquet.

-- experiments: one row per submit of a spec.
--   seq            number of the row, also the number of the plan that follows it
--   recorded_at    when it was submitted
--   name           the experiment's name in its spec
--   spec_identity  hash of the validated spec
--   spec_text      the spec as written
--   command        the command line
--   versions       package versions, JSON
--   git_commit     commit of the code, with +dirty when files were changed
CREATE TABLE experiments (
    seq BIGINT, recorded_at TIMESTAMP, name VARCHAR, spec_identity VARCHAR, spec_text VARCHAR, command VARCHAR,
    versions VARCHAR, git_commit VARCHAR
);

-- node_plans: the nodes of each submitted graph.
--   seq            number of the row
--   recorded_at    when it was planned
--   experiment     name of the experiment
--   plan           experiments.seq of the submit that planned it
--   identity       the node's identity
--   kind           pretrain, collect, train, calibrate-..., evaluate
--   label          readable name
--   upstream       identities of the nodes it reads
--   params         settings, JSON
CREATE TABLE node_plans (
    seq BIGINT, recorded_at TIMESTAMP, experiment VARCHAR, plan BIGINT, identity VARCHAR, kind VARCHAR, label VARCHAR,
    upstream VARCHAR[], params VARCHAR
);

-- node_states: every state a node went through; view nodes holds the latest.
--   seq            number of the row
--   recorded_at    when the state began
--   experiment     name of the experiment
--   identity       the node's identity
--   state          planned, running, done, failed, blocked or cancelled
--   actor          where it ran
--   message        the failure or other note
--   summary        figures of the stage, JSON
CREATE TABLE node_states (
    seq BIGINT, recorded_at TIMESTAMP, experiment VARCHAR, identity VARCHAR, state VARCHAR, actor VARCHAR,
    message VARCHAR, summary VARCHAR
);

-- artifacts: directories written by stages.
--   seq            number of the row
--   recorded_at    when it was recorded
--   identity       identity of the node that wrote it
--   kind           kind of that node
--   path           directory, relative to the home
--   bytes          size
--   sha256         digest of its contents
--   summary        figures of the stage, JSON
CREATE TABLE artifacts (
    seq BIGINT, recorded_at TIMESTAMP, identity VARCHAR, kind VARCHAR, path VARCHAR, bytes BIGINT, sha256 VARCHAR,
    summary VARCHAR
);

-- archives: runs taken out of the tables; view runs shows them as archived, view outliers lists them.
--   seq            number of the row
--   recorded_at    when it was archived
--   run_id         the archived run
--   reason         why
--   successor      the run that replaces it
CREATE TABLE archives (seq BIGINT, recorded_at TIMESTAMP, run_id VARCHAR, reason VARCHAR, successor VARCHAR);

-- events: what happened that a reader should know.
--   seq            number of the row
--   recorded_at    when
--   experiment     name of the experiment, NULL for the warehouse itself
--   level          info, warning or error
--   kind           short word: reconcile, quarantine, outlier, ...
--   message        one line
--   run_id         the run it is about, if any
CREATE TABLE events (
    seq BIGINT, recorded_at TIMESTAMP, experiment VARCHAR, level VARCHAR, kind VARCHAR, message VARCHAR, run_id VARCHAR
);

-- run_records: runs as they were written; read the view runs, which knows about archiving and documents the columns.
CREATE TABLE run_records (
    run_id VARCHAR, experiment VARCHAR, identity VARCHAR,
    target VARCHAR, task VARCHAR, method VARCHAR, drafter VARCHAR, verifier VARCHAR, budget INTEGER, floor DOUBLE,
    padded BOOLEAN, temperature DOUBLE, commit_rule VARCHAR, cache VARCHAR, layout VARCHAR, stop VARCHAR,
    generation_length INTEGER, block_length INTEGER,
    seed BIGINT, attempt INTEGER, status VARCHAR, reason VARCHAR, n_samples INTEGER, split VARCHAR,
    sample_digest VARCHAR, sample_set VARCHAR, target_digest VARCHAR, floor_setting VARCHAR, limited BOOLEAN,
    segments INTEGER, device_class VARCHAR, dtype VARCHAR, distribution_preserving BOOLEAN, accuracy DOUBLE,
    nfe DOUBLE, nfe_answer DOUBLE, tok_s DOUBLE, answer_tok_s DOUBLE, wall_s DOUBLE, warmup_s DOUBLE,
    accepted_per_round_pooled DOUBLE, accepted_per_round_mean DOUBLE, exact_tie_share DOUBLE, near_tie_share DOUBLE,
    stale_token_share DOUBLE, stale_position_share DOUBLE, started_at TIMESTAMP, git_commit VARCHAR, versions VARCHAR,
    extra VARCHAR
);

-- samples: one row per decoded sample.
--   run_id            the run
--   sample_id         task/split/number
--   prompt            the prompt, where the stage records it
--   prompt_tokens     tokens of the prompt
--   generated_tokens  tokens generated, the prompt never counted
--   answer_tokens     generated tokens up to and including the first stop id
--   nfe               target forwards
--   nfe_answer        the part of nfe spent on positions up to the first stop id
--   store_passes      forwards that only store a finished block, counted apart
--   wall_s            net seconds
--   draft_s           seconds in the drafter
--   forward_s         seconds in the target forward
--   correct           the task's score, NULL where nothing was scored
--   output            decoded text
--   finish            stop or length
--   tokens            generated token ids through the end of the last block
--   exact_ties        commits decided by an exact tie in confidence
--   near_ties         commits decided by a gap below 1e-6
CREATE TABLE samples (
    run_id VARCHAR, sample_id VARCHAR, prompt VARCHAR, prompt_tokens INTEGER, generated_tokens INTEGER,
    answer_tokens INTEGER, nfe DOUBLE, nfe_answer DOUBLE, store_passes INTEGER, wall_s DOUBLE, draft_s DOUBLE,
    forward_s DOUBLE, correct BOOLEAN, output VARCHAR, finish VARCHAR, tokens INTEGER[], exact_ties INTEGER,
    near_ties INTEGER
);

-- rounds: one row per target forward.
--   run_id               the run
--   sample_id            the sample
--   block                block of the sequence, 0 holds the first generated position
--   round                round within the block, 0 is the undrafted first forward
--   drafted              draft nodes verified by this forward
--   accepted             drafts accepted, without the bonus commit
--   positions            absolute positions committed, in order
--   draft_s              seconds in the drafter
--   forward_s            seconds in the target forward
--   reject_cause         what ended the accepted path: position, token, budget, or NULL
--   true_position_rank   rank (0 = first) of the true next position by stale confidence where the walk left the tree
--   true_token_rank      rank (0 = first) of the true token under the stale conditionals there
--   replicas             block replicas in the forward, padding included
CREATE TABLE rounds (
    run_id VARCHAR, sample_id VARCHAR, block INTEGER, round INTEGER, drafted INTEGER, accepted INTEGER,
    positions INTEGER[], draft_s DOUBLE, forward_s DOUBLE, reject_cause VARCHAR, true_position_rank INTEGER,
    true_token_rank INTEGER, replicas INTEGER
);

-- view_state: which version of the view files this database holds.
--   digest   sha256 over all view files
CREATE TABLE view_state (digest VARCHAR);
