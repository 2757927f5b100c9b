-- samples: what an oracle spent on looking ahead.
--   lookahead_s       seconds in the look-ahead of an oracle drafter, in neither wall_s nor draft_s; 0 for all other drafters
ALTER TABLE samples ADD COLUMN lookahead_s DOUBLE;
