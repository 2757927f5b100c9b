-- rounds: work on the next block in the same forward (inter-block speculation), and the check of the logits.
--   ahead_drafted       draft nodes of the next block verified by this forward
--   ahead_accepted      of those, drafts accepted, without the bonus commit
--   ahead_positions     absolute positions of the next block committed, in order; in no row of that block
--   logit_error         largest difference between the logits of root and accepted drafts and those of a forward without
--                       drafts; NULL unless the spec has check_logits, in rounds without drafts, and where the next block
--                       took part
ALTER TABLE rounds ADD COLUMN ahead_drafted INTEGER;
ALTER TABLE rounds ADD COLUMN ahead_accepted INTEGER;
ALTER TABLE rounds ADD COLUMN ahead_positions INTEGER[];
ALTER TABLE rounds ADD COLUMN logit_error DOUBLE;
