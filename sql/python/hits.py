"""A table `hits` of ClickBench's 105 columns, with values that are made up: many distinct ones and few, empty texts,
skew. It is the same for the same number of rows."""

import duckdb

SMALL, INT, BIG, TEXT = "SMALLINT", "INTEGER", "BIGINT", "VARCHAR"

# Columns that the queries ask about; `h` is a number of 64 bits of the row and the column, `i` the row.
ASKED = {
    "WatchID": (BIG, "(h % 9000000000000000000)::BIGINT"),
    "Title": (TEXT, "CASE WHEN h % 9 = 0 THEN '' WHEN h % 11 = 0 THEN 'Google, ' || h % 50 ELSE 'Page ' || h % 3000 END"),
    "EventTime": ("TIMESTAMP", "TIMESTAMP '2013-07-01 00:00:00' + to_seconds((h % 2678400)::BIGINT)"),
    "EventDate": ("DATE", "DATE '2013-07-01' + (h % 31)::INTEGER"),
    "CounterID": (INT, "CASE WHEN h % 3 = 0 THEN 62 ELSE h % 500 END"),
    "ClientIP": (INT, "(h % 4000)::INTEGER - 2000"),
    "RegionID": (INT, "h % 200"),
    "UserID": (BIG, "CASE WHEN h % 4000 = 0 THEN 435090932899640449 ELSE (h % 5000) * 1000003 END"),
    "URL": (TEXT, "CASE WHEN h % 13 = 0 THEN '' WHEN h % 17 = 0 THEN 'http://google.example/' || h % 40 "
                  "ELSE 'http://site' || h % 300 || '.example/page?id=' || h % 4000 END"),
    "Referer": (TEXT, "CASE WHEN h % 5 = 0 THEN '' WHEN h % 2 = 0 THEN 'https://www.ref' || h % 60 || '.example/' || h % 900 "
                      "ELSE 'http://other' || h % 20 || '.example/x' END"),
    "IsRefresh": (SMALL, "(h % 8 = 0)::INTEGER"),
    "ResolutionWidth": (SMALL, "800 + (h % 20) * 60"),
    "MobilePhone": (SMALL, "CASE WHEN h % 4 = 0 THEN h % 30 ELSE 0 END"),
    "MobilePhoneModel": (TEXT, "CASE WHEN h % 4 = 0 THEN 'model ' || h % 25 ELSE '' END"),
    "TraficSourceID": (SMALL, "(h % 10)::INTEGER - 1"),
    "SearchEngineID": (SMALL, "CASE WHEN h % 3 = 0 THEN h % 60 ELSE 0 END"),
    "SearchPhrase": (TEXT, "CASE WHEN h % 3 = 0 THEN 'phrase ' || h % 700 ELSE '' END"),
    "AdvEngineID": (SMALL, "CASE WHEN h % 20 = 0 THEN h % 17 ELSE 0 END"),
    "WindowClientWidth": (SMALL, "(h % 30) * 64"),
    "WindowClientHeight": (SMALL, "(h % 25) * 40"),
    "IsLink": (SMALL, "(h % 6 = 0)::INTEGER"),
    "IsDownload": (SMALL, "(h % 40 = 0)::INTEGER"),
    "DontCountHits": (SMALL, "(h % 7 = 0)::INTEGER"),
    "RefererHash": (BIG, "CASE WHEN h % 50 = 0 THEN 3594120000172545465 ELSE (h % 100000)::BIGINT END"),
    "URLHash": (BIG, "CASE WHEN h % 50 = 0 THEN 2868770270353813622 ELSE (h % 100000)::BIGINT END"),
    "ClientEventTime": ("TIMESTAMP", "TIMESTAMP '2013-07-01 00:00:00' + to_seconds((h % 2678400)::BIGINT)"),
    "LocalEventTime": ("TIMESTAMP", "TIMESTAMP '2013-07-01 00:00:00' + to_seconds((h % 2678400)::BIGINT)"),
}

# All of them, in their order: a letter for the type of what nobody asks about.
COLUMNS = """WatchID JavaEnable:s Title GoodEvent:s EventTime EventDate CounterID ClientIP RegionID UserID CounterClass:s OS:s
UserAgent:s URL Referer IsRefresh RefererCategoryID:s RefererRegionID:i URLCategoryID:s URLRegionID:i ResolutionWidth
ResolutionHeight:s ResolutionDepth:s FlashMajor:s FlashMinor:s FlashMinor2:t NetMajor:s NetMinor:s UserAgentMajor:s
UserAgentMinor:t CookieEnable:s JavascriptEnable:s IsMobile:s MobilePhone MobilePhoneModel Params:t IPNetworkID:i
TraficSourceID SearchEngineID SearchPhrase AdvEngineID IsArtifical:s WindowClientWidth WindowClientHeight ClientTimeZone:s
ClientEventTime SilverlightVersion1:s SilverlightVersion2:s SilverlightVersion3:i SilverlightVersion4:s PageCharset:t
CodeVersion:i IsLink IsDownload IsNotBounce:s FUniqID:b OriginalURL:t HID:i IsOldCounter:s IsEvent:s IsParameter:s
DontCountHits WithHash:s HitColor:t LocalEventTime Age:s Sex:s Income:s Interests:s Robotness:s RemoteIP:i WindowName:i
OpenerName:i HistoryLength:s BrowserLanguage:t BrowserCountry:t SocialNetwork:t SocialAction:t HTTPError:s SendTiming:i
DNSTiming:i ConnectTiming:i ResponseStartTiming:i ResponseEndTiming:i FetchTiming:i SocialSourceNetworkID:s
SocialSourcePage:t ParamPrice:b ParamOrderID:t ParamCurrency:t ParamCurrencyID:s OpenstatServiceName:t
OpenstatCampaignID:t OpenstatAdID:t OpenstatSourceID:t UTMSource:t UTMMedium:t UTMCampaign:t UTMContent:t UTMTerm:t FromTag:t
HasGCLID:s RefererHash URLHash CLID:i"""

OTHERS = {
    "s": (SMALL, "h % 100"),
    "i": (INT, "h % 100000"),
    "b": (BIG, "(h % 1000000000000)::BIGINT"),
    "t": (TEXT, "CASE WHEN h % 4 > 0 THEN '' ELSE 'text ' || h % 50 END"),
}


def generate(folder, rows):
    """Writes `hits.parquet` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = []
    for at, column in enumerate(COLUMNS.split()):
        name, _, letter = column.partition(":")
        kind, value = OTHERS[letter] if letter else ASKED[name]
        # A multiplication by an odd number and a shift spread the rows; DuckDB's own hash may be another one tomorrow.
        spread = f"((i * 2654435761 + {at} * 40503 + 12345) % 4294967296 * (2 * {at} + 1000003) // 1024)::HUGEINT"
        columns.append(f"({value.replace('h ', f'{spread} ')})::{kind} AS \"{name}\"")
    assert len(columns) == 105, len(columns)
    sql = f"SELECT {', '.join(columns)} FROM range({rows}) t(i)"
    duckdb.sql(f"COPY ({sql}) TO '{folder / 'hits.parquet'}' (FORMAT parquet)")
