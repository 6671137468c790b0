"""What every output passes: 戒 rules, 定 proof, 慧 insight, 识 store. Values in, values out; nothing here runs."""
