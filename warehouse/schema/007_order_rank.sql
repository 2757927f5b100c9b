-- rounds: where the drafter itself stood.
--   true_order_rank   rank (0 = first) of the true next position in the drafter's own order where the walk left the tree:
--                     that of the order model for spot, of the ranking that spiffy was told to use, of what an oracle
--                     knows, and of stale confidence for the others; NULL in round 0 and in runs of older programs
ALTER TABLE rounds ADD COLUMN true_order_rank INTEGER;
