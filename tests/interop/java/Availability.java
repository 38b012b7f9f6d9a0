import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/** What the official decoder takes out of lists of entries: a list in hex per argument, its entries below 1000 per line. */
final class Availability {
    private Availability() {}

    public static void main(String[] lists) {
        for (String list : lists) {
            AvailabilityOfEntriesOfLedger found = new AvailabilityOfEntriesOfLedger(HexFormat.of().parseHex(list));
            String entries = LongStream.range(0, 1000)
                    .filter(found::isEntryAvailable)
                    .mapToObj(Long::toString)
                    .collect(Collectors.joining(","));
            System.out.println(found.getTotalNumOfAvailableEntries() + ":" + entries);
        }
    }
}
