// aling94/quarto-java: java -jar bin/aling94.jar CLASS, where CLASS is NormalAI or HardAI.
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import model.Game.GameAI.GameAI;
import model.Game.Move;
import model.Game.Quarto;
import model.Piece;

public class Aling94 {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what the stranger's code prints is no answer
        GameAI player = (GameAI) Class.forName("model.Game.GameAI." + arguments[0]).getConstructor().newInstance();
        List<String[]> positions = new ArrayList<>();
        for (Scanner input = new Scanner(System.in); input.hasNextLine(); output.flush()) {
            String[] words = input.nextLine().split(" ");
            if (words[0].equals("quarto") || words[0].equals("rules")) output.println("ready");
            else if (words[0].equals("position")) positions.add(words);
            else if (words[0].equals("quit")) return;
            else for (; !positions.isEmpty(); output.flush()) output.println(answer(player, positions.remove(0)));
        }
    }

    static String answer(GameAI player, String[] words) {
        Quarto game = new Quarto();
        Piece[] pieces = new Piece[16];
        for (Piece piece : game.getFrees()) pieces[piece.value] = piece;
        int x = -1, y = -1;
        for (int cell = 0; cell < 16; cell++) {
            char digit = words[1].charAt(cell + cell / 4);
            if (digit == '.') continue;
            game.makeMove(x, y, pieces[Character.digit(digit, 16)], true);
            x = cell % 4;
            y = cell / 4;
        }
        boolean places = !words[2].equals("-");
        if (places) game.makeMove(x, y, pieces[Character.digit(words[2].charAt(0), 16)], true);
        Move move = player.genMove(game);
        String cell = places ? "" + (char) ('a' + move.x) + (char) ('1' + move.y) : "-";
        return "turn " + cell + " " + (move.picked == null ? "-" : Integer.toHexString(move.picked.value));
    }
}
