//! Tables that are there and cannot be read.

use basalt_core::{
    error::{Error, ErrorKind},
    schema::{DataType, Field, Schema},
    table::Catalog,
};

#[test]
fn a_damaged_table_has_another_error_than_a_missing_one() {
    let schema = || Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
    let catalog = Catalog::new();
    catalog.create("other", schema()).unwrap();
    let damaged = |why: &str| Error::new(ErrorKind::TableDamaged, why);
    catalog.set_unreadable("t", 7, damaged("table \"t\" is damaged: a file is gone"));
    let error = catalog.get("t").unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::TableDamaged, "table \"t\" is damaged: a file is gone")
    );
    assert_eq!(catalog.get("u").unwrap_err().kind(), ErrorKind::TableNotFound);
    assert_eq!((catalog.list().len(), catalog.unreadable().len()), (1, 1));
    // Once it can be read it is a table as others are.
    catalog.create("t", schema()).unwrap();
    assert!(catalog.get("t").is_ok() && catalog.unreadable().is_empty());
    catalog.set_unreadable("v", 8, damaged("gone"));
    catalog.set_readable(8);
    assert_eq!(catalog.get("v").unwrap_err().kind(), ErrorKind::TableNotFound);
    // One that is held is an error as well, and no other that has taken its name.
    let id = catalog.find("t").unwrap().id();
    catalog.set_unreadable("t", id + 1, damaged("another"));
    assert!(catalog.get("t").is_ok());
    catalog.set_unreadable("t", id, damaged("gone"));
    assert_eq!(catalog.get("t").unwrap_err().kind(), ErrorKind::TableDamaged);
    catalog.set_readable(id);
    assert!(catalog.get("t").is_ok());
}
