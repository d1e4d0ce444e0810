#!/bin/sh
# Fetch the repositories that repositories.txt lists, each at its commit, into players/OWNER+NAME, and build the
# programs of adapters/ in bin/. Start it in the copied folder: git, python3, cc, javac, rustc and node are needed.
set -eu

while read -r address commit; do
  folder=players/$(echo "$address" | sed 's|https://github.com/||; s|/|+|')
  [ -d "$folder/.git" ] && continue
  git init --quiet "$folder"
  git -C "$folder" fetch --quiet --depth 1 "$address" "$commit"
  GIT_LFS_SKIP_SMUDGE=1 git -C "$folder" checkout --quiet FETCH_HEAD
done < repositories.txt

# Two players load learned weights in their main.py only; one opens a file by its path on Windows.
cp adapters/learned_player.py players/milad818+CI2022-23-Quarto-Final-Project/
cp adapters/learned_player.py players/msdkarimi+CI-FinalProject-Quarto/
cd players/srrmtt+CI-Exam-quarto && cp symmetries/symmetries.txt '.\symmetries\symmetries.txt' && cd ../..

# Libraries of some players. Since NumPy 2.1, one of them raises an exception.
python3 -m venv env
env/bin/python -m pip install --quiet numpy==1.26.4 matplotlib tqdm

mkdir -p bin
c=players/MarcellPerger1+quarto_ai_1/src
cc -O2 -DNDEBUG -I $c -o bin/marcellperger adapters/marcellperger.c \
  $c/base_ai.c $c/gamestate.c $c/minimax_ai.c $c/timelib.c
java=players/aling94+quarto-java/src/main/java
javac -nowarn -d bin/aling94 -sourcepath $java adapters/Aling94.java $java/model/Game/GameAI/*.java
jar cfe bin/aling94.jar Aling94 -C bin/aling94 . -C players/aling94+quarto-java/src/main/resources .
rustc -O --edition 2021 -A warnings -o bin/domenukk adapters/domenukk.rs
rustc -O --crate-type rlib -o bin/librand.rlib adapters/rand.rs
rustc -O --edition 2021 -A warnings --extern rand=bin/librand.rlib -o bin/yotaroy adapters/yotaroy.rs
