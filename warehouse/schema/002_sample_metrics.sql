-- samples: further scores of a sample beside `correct`.
--   metrics           the task's named scores, JSON: strict and flexible, exact_match, prompt_loose, ...; NULL where it has none
ALTER TABLE samples ADD COLUMN metrics VARCHAR;
