"""The tables of the index and its queries, as SQL."""

VERSION = 3  # of the tables and of the data that `fold` and `words` produce
TABLES = """
    CREATE TABLE folder (name TEXT PRIMARY KEY, stamp TEXT NOT NULL);
    CREATE TABLE file (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, page TEXT NOT NULL, faults TEXT NOT NULL);
    CREATE TABLE key (key TEXT NOT NULL, file TEXT NOT NULL, PRIMARY KEY (key, file)) WITHOUT ROWID;
    CREATE INDEX key_file ON key (file);
    CREATE TABLE seen (file TEXT NOT NULL, lesson TEXT NOT NULL, sighting TEXT NOT NULL);
    CREATE INDEX seen_file ON seen (file);
    CREATE INDEX seen_lesson ON seen (lesson);
    CREATE TABLE lesson (
        number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
        record TEXT NOT NULL, against TEXT NOT NULL DEFAULT '', topic TEXT NOT NULL
    );
    CREATE INDEX lesson_topic ON lesson (topic);
    CREATE TABLE part (file TEXT PRIMARY KEY, number INTEGER NOT NULL);
    CREATE INDEX part_number ON part (number);
    CREATE TABLE alias (alias TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (alias, number)) WITHOUT ROWID;
    CREATE INDEX alias_number ON alias (number);
    CREATE TABLE contradicts (other TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (other, number)) WITHOUT ROWID;
    CREATE INDEX contradicts_number ON contradicts (number);
"""
WORDS = (
    'CREATE VIRTUAL TABLE words USING fts5 (title, keywords, body, tokenize = "porter unicode61 remove_diacritics 2");'
)
NO_FTS5 = "CREATE TABLE words (title TEXT, keywords TEXT, body TEXT);"  # every row is then scanned
CHOSEN = "kind IN (SELECT value FROM json_each(?)) AND status IN (SELECT value FROM json_each(?))"
FOUND = f"""
    SELECT record, status, against FROM words JOIN lesson ON lesson.number = words.rowid
    WHERE words MATCH ? AND {CHOSEN} ORDER BY bm25(words, 8, 5, 1), id LIMIT ?
"""  # noqa: S608 - no outside text is inserted
ALL_WORDS = f"""
    SELECT words.rowid, title, keywords, body FROM words JOIN lesson ON lesson.number = words.rowid
    WHERE {CHOSEN} ORDER BY id
"""  # noqa: S608
ONE = "SELECT record, status, against FROM lesson"
SEEN = "SELECT file, rowid, sighting FROM seen WHERE lesson = ?"
