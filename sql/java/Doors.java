// Asks a server that check_doors.py has filled, through the JDBC driver of Arrow Flight SQL.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

public class Doors {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery(
                            "SELECT a.name, count(*) AS n FROM flights f JOIN airlines a ON f.carrier = a.carrier "
                                    + "GROUP BY a.name ORDER BY n DESC")) {
                check(rows.next(), "no rows");
                check(rows.getString("name").equals("United Air Lines Inc."), rows.getString("name"));
                check(rows.getLong("n") == 58665, "n is " + rows.getLong("n"));
            }
            try (PreparedStatement statement = connection.prepareStatement(
                    "SELECT count(*) AS n FROM flights WHERE carrier = ? AND distance > ?")) {
                for (int distance : new int[] {0, 1000}) {
                    statement.setString(1, "UA");
                    statement.setLong(2, distance);
                    try (ResultSet rows = statement.executeQuery()) {
                        check(rows.next(), "no rows");
                        check(rows.getLong(1) == (distance == 0 ? 58665 : 41135), "n is " + rows.getLong(1));
                    }
                }
            }
            int tables = 0;
            try (ResultSet rows = connection.getMetaData().getTables(null, null, "%", null)) {
                while (rows.next()) {
                    tables++;
                }
            }
            check(tables >= 4, tables + " tables");
            int columns = 0;
            try (ResultSet rows = connection.getMetaData().getColumns(null, null, "airlines", "%")) {
                while (rows.next()) {
                    columns++;
                }
            }
            check(columns == 2, columns + " columns");
            check(connection.getMetaData().getDatabaseProductName().equals("Basalt"), "another product");
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("SELECT * FROM nowhere");
                throw new AssertionError("a table that is not there");
            } catch (SQLException error) {
                check(error.getMessage().contains("nowhere"), error.getMessage());
            }
            System.out.println("queries, parameters, tables and columns, " + tables + " tables");
        }
    }
}
