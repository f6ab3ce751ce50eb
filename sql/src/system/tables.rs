//! The virtual tables and their columns, as PostgreSQL 15 has them. Those that nobody here could fill are there and empty,
//! so that a tool that asks for them is told that there are none.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::{MemTable, TableProvider};

use super::server;
use crate::error::{Error, Result};

/// The number from which on tables of users have theirs.
pub(super) const FIRST_USER: i64 = 16_384;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// Microseconds since 1970.
    Time(i64),
    /// A number.
    Float(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A row: columns by their names; the others are NULL.
pub(super) type Row = Vec<(&'static str, Value)>;

/// A virtual table.
#[derive(Debug)]
pub(crate) struct Virtual {
    /// With its schema.
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    /// Names, each with its type behind a colon where it is no text: `i` an integer, `b` a truth value, `t` a time, `f` a
    /// number.
    columns: &'static str,
    /// Whether it may have rows.
    pub(crate) has_rows: bool,
    /// Whether the columns of tables are in it.
    pub(crate) reads_columns: bool,
}

pub(super) const fn full(name: &'static str, number: i64, columns: &'static str) -> Virtual {
    Virtual { name, number, columns, has_rows: true, reads_columns: false }
}

const fn empty(name: &'static str, number: i64, columns: &'static str) -> Virtual {
    Virtual { name, number, columns, has_rows: false, reads_columns: false }
}

pub(super) const OF_POSTGRES: &[Virtual] = &[
    full("pg_catalog.pg_am", 2601, "oid:i amname amhandler amtype"),
    Virtual {
        reads_columns: true,
        ..full(
            "pg_catalog.pg_attribute",
            1249,
            "attrelid:i attname atttypid:i attstattarget:i attlen:i attnum:i attndims:i attcacheoff:i atttypmod:i attbyval:b attalign attstorage attcompression attnotnull:b atthasdef:b atthasmissing:b attidentity attgenerated attisdropped:b attislocal:b attinhcount:i attcollation:i attacl attoptions attfdwoptions attmissingval",
        )
    },
    full(
        "pg_catalog.pg_class",
        1259,
        "oid:i relname relnamespace:i reltype:i reloftype:i relowner:i relam:i relfilenode:i reltablespace:i relpages:i reltuples:i relallvisible:i reltoastrelid:i relhasindex:b relisshared:b relpersistence relkind relnatts:i relchecks:i relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident relispartition:b relrewrite:i relfrozenxid:i relminmxid:i relacl reloptions relpartbound",
    ),
    full(
        "pg_catalog.pg_database",
        1262,
        "oid:i datname datdba:i encoding:i datlocprovider datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:i datminmxid:i dattablespace:i datcollate datctype daticulocale datcollversion datacl",
    ),
    full("pg_catalog.pg_namespace", 2615, "oid:i nspname nspowner:i nspacl"),
    full(
        "pg_catalog.pg_roles",
        12_001,
        "oid:i rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i rolpassword rolvaliduntil rolbypassrls:b rolconfig",
    ),
    full(
        "pg_catalog.pg_settings",
        12_014,
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals boot_val reset_val sourcefile sourceline:i pending_restart:b",
    ),
    full(
        "pg_catalog.pg_tables",
        12_002,
        "schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    full("pg_catalog.pg_tablespace", 1213, "oid:i spcname spcowner:i spcacl spcoptions"),
    full(
        "pg_catalog.pg_type",
        1247,
        "oid:i typname typnamespace:i typowner:i typlen:i typbyval:b typtype typcategory typispreferred:b typisdefined:b typdelim typrelid:i typsubscript typelem:i typarray:i typinput typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typnotnull:b typbasetype:i typtypmod:i typndims:i typcollation:i typdefaultbin typdefault typacl",
    ),
    full(
        "pg_catalog.pg_user",
        12_003,
        "usename usesysid:i usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil useconfig",
    ),
    empty(
        "pg_catalog.pg_amop",
        2602,
        "oid:i amopfamily:i amoplefttype:i amoprighttype:i amopstrategy:i amoppurpose amopopr:i amopmethod:i amopsortfamily:i",
    ),
    empty(
        "pg_catalog.pg_amproc",
        2603,
        "oid:i amprocfamily:i amproclefttype:i amprocrighttype:i amprocnum:i amproc",
    ),
    empty("pg_catalog.pg_attrdef", 2604, "oid:i adrelid:i adnum:i adbin"),
    empty("pg_catalog.pg_auth_members", 1261, "roleid:i member:i grantor:i admin_option:b"),
    empty("pg_catalog.pg_available_extensions", 12_004, "name default_version installed_version comment"),
    empty("pg_catalog.pg_cast", 2605, "oid:i castsource:i casttarget:i castfunc:i castcontext castmethod"),
    empty(
        "pg_catalog.pg_collation",
        3456,
        "oid:i collname collnamespace:i collowner:i collprovider collisdeterministic:b collencoding:i collcollate collctype colliculocale collversion",
    ),
    empty(
        "pg_catalog.pg_constraint",
        2606,
        "oid:i conname connamespace:i contype condeferrable:b condeferred:b convalidated:b conrelid:i contypid:i conindid:i conparentid:i confrelid:i confupdtype confdeltype confmatchtype conislocal:b coninhcount:i connoinherit:b conkey confkey conpfeqop conppeqop conffeqop confdelsetcols conexclop conbin",
    ),
    empty(
        "pg_catalog.pg_conversion",
        2607,
        "oid:i conname connamespace:i conowner:i conforencoding:i contoencoding:i conproc condefault:b",
    ),
    empty(
        "pg_catalog.pg_cursors",
        12_005,
        "name statement is_holdable:b is_binary:b is_scrollable:b creation_time",
    ),
    empty("pg_catalog.pg_db_role_setting", 2964, "setdatabase:i setrole:i setconfig"),
    empty("pg_catalog.pg_default_acl", 826, "oid:i defaclrole:i defaclnamespace:i defaclobjtype defaclacl"),
    empty(
        "pg_catalog.pg_depend",
        2608,
        "classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype",
    ),
    empty("pg_catalog.pg_description", 2609, "objoid:i classoid:i objsubid:i description"),
    empty("pg_catalog.pg_enum", 3501, "oid:i enumtypid:i enumsortorder:i enumlabel"),
    empty(
        "pg_catalog.pg_event_trigger",
        3466,
        "oid:i evtname evtevent evtowner:i evtfoid:i evtenabled evttags",
    ),
    empty(
        "pg_catalog.pg_extension",
        3079,
        "oid:i extname extowner:i extnamespace:i extrelocatable:b extversion extconfig extcondition",
    ),
    empty(
        "pg_catalog.pg_foreign_data_wrapper",
        2328,
        "oid:i fdwname fdwowner:i fdwhandler:i fdwvalidator:i fdwacl fdwoptions",
    ),
    empty(
        "pg_catalog.pg_foreign_server",
        1417,
        "oid:i srvname srvowner:i srvfdw:i srvtype srvversion srvacl srvoptions",
    ),
    empty("pg_catalog.pg_foreign_table", 3118, "ftrelid:i ftserver:i ftoptions"),
    empty(
        "pg_catalog.pg_index",
        2610,
        "indexrelid:i indrelid:i indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey indcollation indclass indoption indexprs indpred",
    ),
    empty("pg_catalog.pg_indexes", 12_006, "schemaname tablename indexname tablespace indexdef"),
    empty("pg_catalog.pg_inherits", 2611, "inhrelid:i inhparent:i inhseqno:i inhdetachpending:b"),
    empty(
        "pg_catalog.pg_language",
        2612,
        "oid:i lanname lanowner:i lanispl:b lanpltrusted:b lanplcallfoid:i laninline:i lanvalidator:i lanacl",
    ),
    empty("pg_catalog.pg_largeobject_metadata", 2995, "oid:i lomowner:i lomacl"),
    empty("pg_catalog.pg_locks", 12_007, "locktype database:i relation:i pid:i mode granted:b"),
    empty(
        "pg_catalog.pg_matviews",
        12_008,
        "schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition",
    ),
    empty(
        "pg_catalog.pg_opclass",
        2616,
        "oid:i opcmethod:i opcname opcnamespace:i opcowner:i opcfamily:i opcintype:i opcdefault:b opckeytype:i",
    ),
    empty(
        "pg_catalog.pg_operator",
        2617,
        "oid:i oprname oprnamespace:i oprowner:i oprkind oprleft:i oprright:i oprresult:i oprcode:i",
    ),
    empty("pg_catalog.pg_opfamily", 2753, "oid:i opfmethod:i opfname opfnamespace:i opfowner:i"),
    empty(
        "pg_catalog.pg_partitioned_table",
        3350,
        "partrelid:i partstrat partnatts:i partdefid:i partattrs partclass partcollation partexprs",
    ),
    empty(
        "pg_catalog.pg_policy",
        3256,
        "oid:i polname polrelid:i polcmd polpermissive:b polroles polqual polwithcheck",
    ),
    empty(
        "pg_catalog.pg_prepared_statements",
        12_009,
        "name statement prepare_time parameter_types from_sql:b",
    ),
    empty(
        "pg_catalog.pg_proc",
        1255,
        "oid:i proname pronamespace:i proowner:i prolang:i procost:i prorows:i provariadic:i prosupport prokind prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile proparallel pronargs:i pronargdefaults:i prorettype:i proargtypes proallargtypes proargmodes proargnames proargdefaults protrftypes prosrc probin prosqlbody proconfig proacl",
    ),
    empty(
        "pg_catalog.pg_publication",
        6104,
        "oid:i pubname pubowner:i puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    ),
    empty("pg_catalog.pg_publication_namespace", 6237, "oid:i pnpubid:i pnnspid:i"),
    empty("pg_catalog.pg_publication_rel", 6106, "oid:i prpubid:i prrelid:i prqual prattrs"),
    empty(
        "pg_catalog.pg_range",
        3541,
        "rngtypid:i rngsubtype:i rngmultitypid:i rngcollation:i rngsubopc:i rngcanonical rngsubdiff",
    ),
    empty(
        "pg_catalog.pg_rewrite",
        2618,
        "oid:i rulename ev_class:i ev_type ev_enabled is_instead:b ev_qual ev_action",
    ),
    empty("pg_catalog.pg_seclabel", 3596, "objoid:i classoid:i objsubid:i provider label"),
    empty(
        "pg_catalog.pg_sequence",
        2224,
        "seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b",
    ),
    empty(
        "pg_catalog.pg_sequences",
        12_010,
        "schemaname sequencename sequenceowner data_type start_value:i min_value:i max_value:i increment_by:i cycle:b cache_size:i last_value:i",
    ),
    empty("pg_catalog.pg_shdescription", 2396, "objoid:i classoid:i description"),
    empty(
        "pg_catalog.pg_stat_activity",
        12_011,
        "datid:i datname pid:i usename application_name client_addr state query",
    ),
    empty(
        "pg_catalog.pg_stat_user_tables",
        12_012,
        "relid:i schemaname relname seq_scan:i n_live_tup:i n_dead_tup:i",
    ),
    empty(
        "pg_catalog.pg_statistic_ext",
        3381,
        "oid:i stxrelid:i stxname stxnamespace:i stxowner:i stxstattarget:i stxkeys stxkind stxexprs",
    ),
    empty("pg_catalog.pg_subscription", 6100, "oid:i subdbid:i subname subowner:i subenabled:b"),
    empty(
        "pg_catalog.pg_trigger",
        2620,
        "oid:i tgrelid:i tgparentid:i tgname tgfoid:i tgtype:i tgenabled tgisinternal:b tgconstrrelid:i tgconstrindid:i tgconstraint:i tgdeferrable:b tginitdeferred:b tgnargs:i tgattr tgargs tgqual tgoldtable tgnewtable",
    ),
    empty("pg_catalog.pg_timezone_abbrevs", 12_015, "abbrev utc_offset is_dst:b"),
    full("pg_catalog.pg_timezone_names", 12_016, "name abbrev utc_offset is_dst:b"),
    empty("pg_catalog.pg_ts_config", 3602, "oid:i cfgname cfgnamespace:i cfgowner:i cfgparser:i"),
    empty(
        "pg_catalog.pg_ts_dict",
        3600,
        "oid:i dictname dictnamespace:i dictowner:i dicttemplate:i dictinitoption",
    ),
    empty(
        "pg_catalog.pg_ts_parser",
        3601,
        "oid:i prsname prsnamespace:i prsstart prstoken prsend prsheadline prslextype",
    ),
    empty("pg_catalog.pg_ts_template", 3764, "oid:i tmplname tmplnamespace:i tmplinit tmpllexize"),
    empty("pg_catalog.pg_user_mappings", 12_017, "umid:i srvid:i srvname umuser:i usename umoptions"),
    full("pg_catalog.pg_views", 12_013, "schemaname viewname viewowner definition"),
    Virtual {
        reads_columns: true,
        ..full(
            "information_schema.columns",
            13_001,
            "table_catalog table_schema table_name column_name ordinal_position:i column_default is_nullable data_type character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type interval_precision:i character_set_catalog character_set_schema character_set_name collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier is_self_referencing is_identity identity_generation identity_start identity_increment identity_maximum identity_minimum identity_cycle is_generated generation_expression is_updatable",
        )
    },
    full(
        "information_schema.schemata",
        13_002,
        "catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema default_character_set_name sql_path",
    ),
    full(
        "information_schema.tables",
        13_003,
        "table_catalog table_schema table_name table_type self_referencing_column_name reference_generation user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed commit_action",
    ),
    full(
        "information_schema.character_sets",
        13_017,
        "character_set_catalog character_set_schema character_set_name character_repertoire form_of_use default_collate_catalog default_collate_schema default_collate_name",
    ),
    empty(
        "information_schema.check_constraints",
        13_004,
        "constraint_catalog constraint_schema constraint_name check_clause",
    ),
    empty(
        "information_schema.column_privileges",
        13_005,
        "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable",
    ),
    empty(
        "information_schema.constraint_column_usage",
        13_006,
        "table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name",
    ),
    empty(
        "information_schema.element_types",
        13_007,
        "object_catalog object_schema object_name object_type collection_type_identifier data_type",
    ),
    empty(
        "information_schema.key_column_usage",
        13_008,
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position:i position_in_unique_constraint:i",
    ),
    empty(
        "information_schema.parameters",
        13_009,
        "specific_catalog specific_schema specific_name ordinal_position:i parameter_mode parameter_name data_type",
    ),
    empty(
        "information_schema.referential_constraints",
        13_010,
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
    ),
    empty(
        "information_schema.routines",
        13_011,
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name routine_type data_type routine_definition",
    ),
    empty(
        "information_schema.sequences",
        13_012,
        "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value increment cycle_option",
    ),
    empty(
        "information_schema.table_constraints",
        13_013,
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable initially_deferred enforced nulls_distinct",
    ),
    empty(
        "information_schema.table_privileges",
        13_014,
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy",
    ),
    empty(
        "information_schema.triggers",
        13_015,
        "trigger_catalog trigger_schema trigger_name event_manipulation event_object_table action_statement action_timing",
    ),
    full(
        "information_schema.views",
        13_016,
        "table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into",
    ),
];

/// Columns of PostgreSQL's tables that are lists there. They are texts here, of which there are none.
const LISTS: [&str; 23] = [
    "attacl",
    "attfdwoptions",
    "attmissingval",
    "attoptions",
    "confkey",
    "conkey",
    "datacl",
    "indclass",
    "indcollation",
    "indkey",
    "indoption",
    "nspacl",
    "partattrs",
    "proallargtypes",
    "proargmodes",
    "proargnames",
    "proargtypes",
    "relacl",
    "reloptions",
    "rolconfig",
    "spcoptions",
    "stxkeys",
    "tgattr",
];

/// Whether a column is called as one of those, whose parts clients ask for.
pub(crate) fn is_list(column: &str) -> bool {
    LISTS.contains(&column)
}

/// The numbers of the tables of `information_schema`, which nobody sees without its name.
pub(super) const INFORMATION: std::ops::Range<i64> = 13_000..FIRST_USER;

/// Their schemas.
pub(super) const SCHEMAS: [&str; 3] = ["pg_catalog", "information_schema", "system"];

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Virtual> {
    OF_POSTGRES.iter().chain(&server::TABLES)
}

/// A virtual table by its name with its schema.
pub(super) fn find(name: &str) -> Option<&'static Virtual> {
    all().find(|table| table.name == name)
}

impl Virtual {
    /// Its columns in turn, with their types.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, DataType)> {
        self.columns.split(' ').map(|column| match column.split_once(':') {
            // As PostgreSQL's numbers of what it has; ours may be larger.
            Some((name, "i")) if !self.name.starts_with("system.") => (name, DataType::Int32),
            Some((name, "i")) => (name, DataType::Int64),
            Some((name, "t")) => (name, DataType::Timestamp(TimeUnit::Microsecond, None)),
            Some((name, "f")) => (name, DataType::Float64),
            Some((name, _)) => (name, DataType::Boolean),
            None => (column, DataType::Utf8),
        })
    }

    /// Its name without its schema.
    pub(super) fn plain(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, plain)| plain)
    }

    pub(super) fn provider(&self, rows: Vec<Row>) -> Result<Arc<dyn TableProvider>> {
        let fields: Vec<_> = self.columns().map(|(name, of)| Field::new(name, of, true)).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let arrays = self.columns().map(|(name, of)| array(&rows, name, &of)).collect::<Vec<_>>();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
        let batch = batch.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

/// A column of rows.
fn array(rows: &[Row], name: &str, of: &DataType) -> ArrayRef {
    match of {
        DataType::Int32 => values::<_, Int32Array>(rows, name, |value| match value {
            Value::Int(value) => i32::try_from(*value).ok(),
            _ => None,
        }),
        DataType::Int64 => values::<_, Int64Array>(rows, name, |value| match value {
            Value::Int(value) => Some(*value),
            _ => None,
        }),
        DataType::Boolean => values::<_, BooleanArray>(rows, name, |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }),
        DataType::Timestamp(..) => values::<_, TimestampMicrosecondArray>(rows, name, |value| match value {
            Value::Time(value) => Some(*value),
            _ => None,
        }),
        DataType::Float64 => values::<_, Float64Array>(rows, name, |value| match value {
            Value::Float(value) => Some(*value),
            _ => None,
        }),
        _ => values::<_, StringArray>(rows, name, |value| match value {
            Value::Text(value) => Some(value.as_str()),
            _ => None,
        }),
    }
}

/// The values of a column, which are NULL where a row has none of its type.
fn values<'a, T, A: Array + FromIterator<Option<T>> + 'static>(
    rows: &'a [Row],
    name: &str,
    of: impl Fn(&'a Value) -> Option<T>,
) -> ArrayRef {
    let value =
        |row: &'a Row| row.iter().find(|(column, _)| *column == name).and_then(|(_, value)| of(value));
    Arc::new(rows.iter().map(value).collect::<A>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_numbers_differ() {
        let names: BTreeSet<_> = all().map(|table| table.name).collect();
        let numbers: BTreeSet<_> = all().map(|table| table.number).collect();
        assert_eq!((names.len(), numbers.len()), (all().count(), all().count()));
        for table in all() {
            let columns: BTreeSet<_> = table.columns().map(|(name, _)| name).collect();
            assert_eq!(columns.len(), table.columns().count(), "{}", table.name);
            assert!(table.number < FIRST_USER);
            assert_eq!(INFORMATION.contains(&table.number), !table.name.starts_with("pg_catalog."));
        }
    }
}
