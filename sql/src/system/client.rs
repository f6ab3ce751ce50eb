//! What a statement tells of the connection that it came by.

use arrow_schema::DataType;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

/// Who has connected, at a door that asks for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// By the name that it gave.
    pub user: String,
    /// By which it stops its statements.
    pub number: i32,
}

const NAMES: [&str; 4] = ["current_user", "current_role", "session_user", "user"];
const NUMBER: &str = "pg_backend_pid";

/// Functions that take the places of those which know no client, for a text that may call them.
pub(crate) fn functions_of_client(client: &Client, sql: &str) -> Vec<ScalarUDF> {
    let sql = sql.to_lowercase();
    let of = |name: &'static str, value: ScalarValue| {
        let signature = Signature::nullary(Volatility::Stable);
        ScalarUDF::new_from_impl(OfClient { name, value, signature })
    };
    let names = NAMES.into_iter().map(|name| of(name, ScalarValue::Utf8(Some(client.user.clone()))));
    let number = of(NUMBER, ScalarValue::Int64(Some(client.number.into())));
    names.chain([number]).filter(|function| sql.contains(function.name())).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfClient {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for OfClient {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
