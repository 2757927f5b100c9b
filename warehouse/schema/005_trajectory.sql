-- rounds: what the trajectory paper reports of each step. tau is the parameter of commit rule threshold, 0.9 under any other.
--   masked              masked positions of the state where the accepted path ended
--   certain             of those, positions of confidence tau or more under that state's forward
--   levels              depth of the draft tree, 0 without drafts
--   level               level of the last accepted draft, 0 for none; levels may be skipped, so that it can exceed accepted
ALTER TABLE rounds ADD COLUMN masked INTEGER;
ALTER TABLE rounds ADD COLUMN certain INTEGER;
ALTER TABLE rounds ADD COLUMN levels INTEGER;
ALTER TABLE rounds ADD COLUMN level INTEGER;

-- blocks: what was known of positions in doubt.
--   doubtful            masked positions of stale confidence below tau, summed over the rounds with a stale distribution
--   doubtful_covered    of those, positions whose final token is among the K = 1 .. 8 most probable stale ones
ALTER TABLE blocks ADD COLUMN doubtful INTEGER;
ALTER TABLE blocks ADD COLUMN doubtful_covered INTEGER[];
