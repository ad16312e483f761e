-- Says whether a session is there and a user's.
--
-- KEYS 1 generation, 2 session
-- ARGV 1 generation, 2 user

check(KEYS[1], ARGV[1])
return typed('HGET', KEYS[2], 'user') == ARGV[2] and 1 or 0
