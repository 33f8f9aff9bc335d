SELECT k FROM a JOIN dim USING (name) 
