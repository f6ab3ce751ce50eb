//! Tables that are there and cannot be read.

use basalt_core::{
    error::ErrorKind,
    schema::{DataType, Field, Schema},
    table::Catalog,
};

#[test]
fn a_damaged_table_is_told_from_one_that_is_not_there() {
    let schema = || Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
    let catalog = Catalog::new();
    catalog.create("other", schema()).unwrap();
    catalog.set_damaged("t", "table \"t\" is damaged: a file is gone".to_owned());
    let error = catalog.get("t").unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::TableDamaged, "table \"t\" is damaged: a file is gone")
    );
    assert_eq!(catalog.get("u").unwrap_err().kind(), ErrorKind::TableNotFound);
    assert_eq!((catalog.list().len(), catalog.list_damaged().len()), (1, 1));
    // Once it can be read it is a table as others are.
    catalog.create("t", schema()).unwrap();
    assert!(catalog.get("t").is_ok() && catalog.list_damaged().is_empty());
    catalog.set_damaged("v", "gone".to_owned());
    catalog.forget_damaged("v");
    assert_eq!(catalog.get("v").unwrap_err().kind(), ErrorKind::TableNotFound);
}
